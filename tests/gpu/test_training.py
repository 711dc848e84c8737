"""Training on a GPU: the captured step against the plain one, repeats, resumption, and many models side by side."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cornn.baselines import LAYERS
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.training import graph, loop

sys.path.insert(0, str(Path(__file__).parents[1] / "lab" / "training"))
from synthetic import register
from tolerances import FLOAT32

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
register()

CUDNN = ("lstm", "gru", "rnn")
CASES = {
    "epochs with a smaller last batch": resolve("synthetic", device="cuda"),
    "noise": resolve("synthetic", noise=0.5, device="cuda"),
    "everything on": resolve(
        "synthetic",
        noise=0.5,
        device="cuda",
        clip=0.1,
        ema=0.9,
        weight_decay=0.1,
        schedule="cosine",
        warm_up=3,
        recurrent_rate=0.1,
        trainable=("dt", "gamma"),
    ),
    "rmsprop": resolve("synthetic", device="cuda", optimiser="rmsprop", weight_decay=0.1, schedule="cosine"),
    "read at every step": resolve("synthetic", every=True, device="cuda"),
    "fresh sequences": resolve(
        "adding", length=30, hidden_size=16, steps=25, evaluate_every=10, until=0, device="cuda"
    ),
    "autocast": resolve("synthetic", device="cuda", autocast=True),
    **{name: resolve("synthetic", device="cuda", model=name) for name in (*CUDNN, *LAYERS)},
    "a changing base": resolve("synthetic", device="cuda", model="dtriv", rebase_every=3),
}
every_case = pytest.mark.parametrize("config", CASES.values(), ids=CASES)


def assert_same_weights(config, one, other):
    """To the bit; others than coRNN to rounding, since cuDNN and PyTorch's sums promise no more."""
    for name, value in one.weights().items():
        if config.model == "cornn":
            assert torch.equal(value, other.weights()[name]), name
        else:
            torch.testing.assert_close(value, other.weights()[name], **FLOAT32)


@every_case
@pytest.mark.filterwarnings("ignore:RNN module weights")
def test_a_captured_step_is_the_plain_one_and_repeats_to_the_bit(config, tmp_path, monkeypatch):
    first, again = (training.fit(config, tmp_path / name) for name in ("first", "again"))
    assert_same_weights(config, first, again)
    monkeypatch.setattr(loop, "can_capture", lambda feed, fabric: False)
    plain = training.fit(config, tmp_path / "plain")
    if not config.autocast:
        for name, value in plain.weights().items():
            torch.testing.assert_close(first.weights()[name], value, **FLOAT32, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("model", CUDNN)
@pytest.mark.filterwarnings("ignore:RNN module weights")
def test_pytorchs_own_layers_are_trained_as_on_a_cpu(model, captured, tmp_path, monkeypatch):
    """Evaluations in between must not move what is trained."""
    if not captured:
        monkeypatch.setattr(loop, "can_capture", lambda feed, fabric: False)
    there, here = (training.fit(CASES[model].override(device=d), tmp_path / d) for d in ("cuda", "cpu"))
    for name, value in here.weights().items():
        torch.testing.assert_close(there.weights()[name].cpu(), value, rtol=1e-3, atol=1e-4)
    assert [row["metric"] for row in there.metrics()] == pytest.approx([r["metric"] for r in here.metrics()], rel=1e-3)


def test_a_step_is_captured_and_replayed(tmp_path, monkeypatch):
    calls, real = [], graph.take_step

    def counted(models, counts, loss, optimiser):
        calls.append(counts)
        return real(models, counts, loss, optimiser)

    monkeypatch.setattr(graph, "take_step", counted)
    training.fit(CASES["epochs with a smaller last batch"], tmp_path)
    # Three rehearsals and the capture; then the smaller last batch of each of three epochs.
    assert calls == [[10]] * 4 + [[7]] * 3


@every_case
@pytest.mark.filterwarnings("ignore:RNN module weights")
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(config, tmp_path):
    whole = training.fit(config, tmp_path / "whole")

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(config.override(save_every=0.0), tmp_path / "parts", stop)
    parts = training.resume(tmp_path / "parts")
    assert_same_weights(config, whole, parts)
    assert [row["step"] for row in parts.metrics()] == [row["step"] for row in whole.metrics()]
    if config.model == "cornn":
        assert [row["loss"] for row in parts.metrics()] == [row["loss"] for row in whole.metrics()]


@pytest.mark.parametrize("options", [{}, {"uneven": True}, {"noise": 0.5}, {"every": True}], ids=str)
def test_seeds_side_by_side_end_as_they_would_alone(options, tmp_path):
    config = resolve("synthetic", **options, device="cuda", clip=0.5, schedule="cosine", recurrent_rate=0.1)
    _, together = training.fit_seeds(config, range(3), tmp_path / "together")
    for seed, run in enumerate(together):
        assert run.result["side_by_side"] == 3
        alone = training.fit(replace(config, seed=seed), tmp_path / f"alone-{seed}")
        for name, value in alone.weights().items():
            torch.testing.assert_close(run.weights()[name], value, **FLOAT32)
        assert [row["step"] for row in run.metrics()] == [row["step"] for row in alone.metrics()]


def test_ragged_batches_are_not_captured(tmp_path):
    run = training.fit(resolve("synthetic", ragged=True, device="cuda"), tmp_path)
    assert run.result is not None
