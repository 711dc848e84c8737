import importlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cornn import theory
from cornn.lab import training
from cornn.lab.config import from_dictionary
from cornn.lab.recipes import RECIPES, resolve
from cornn.lab.training.build import build

SHORT = resolve("adding", length=10, hidden_size=8, steps=40, evaluate_every=10, until=0, device="cpu")


def test_usual_is_the_recipe_but_for_the_changes():
    for name, recipe in RECIPES["adding"].items():
        assert resolve("adding", name) == recipe.train
        config = resolve("adding", name, learning_rate=0.5, seed=3)
        assert config == replace(recipe.train, optimiser=replace(recipe.train.optimiser, learning_rate=0.5), seed=3)
    assert resolve("adding", gamma=2.0).model.half_lives is None
    assert resolve("adding", "paper", half_lives=(0.1, 1.0)).model.gamma is None


def test_contradictory_or_senseless_settings(tmp_path):
    with pytest.raises(ValueError, match="gamma, half_lives and periods each set the stiffness: give exactly one"):
        training.fit(resolve("adding", gamma=1.0, half_lives=(0.1, 1.0)), tmp_path)
    with pytest.raises(ValueError, match="steps and epochs each set how long to train: give exactly one of them"):
        training.fit(resolve("adding", steps=1, epochs=1), tmp_path)
    for name in ("half_lives", "periods"):
        for ends in ((2.0, 0.1), (0.0, 1.0)):
            with pytest.raises(ValueError, match=f"{name} must be the shortest and the longest, above 0, got"):
                training.fit(resolve("adding", **{name: ends}), tmp_path)
    with pytest.raises(ValueError, match="the schedule drop needs drop_after"):
        training.fit(resolve("adding", drop_after=3), tmp_path)
    for name in ("hidden_size", "batch_size", "steps", "learning_rate"):
        with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
            training.fit(resolve("adding", **{name: 0}), tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("schedule", "foo", "unknown schedule 'foo': choose one of constant, cosine, drop"),
        ("damping", "foo", "unknown damping 'foo'"),
        ("keep", "foo", "unknown keep 'foo'"),
        ("trainable", ("dt", "foo"), "unknown trainable 'foo': choose one of dt, gamma, epsilon"),
        ("batch_size", 2.5, "batch_size must be a whole number, got 2.5"),
        ("until", math.nan, "until must be finite, got nan"),
        ("learning_rate", math.inf, "learning_rate must be finite, got inf"),
        ("recurrent_rate", -1.0, "recurrent_rate must not be below 0"),
        ("drop_to", -1.0, "drop_to must not be below 0"),
    ],
)
def test_settings_that_cannot_be(tmp_path, name, value, words):
    with pytest.raises(ValueError, match=words):
        training.fit(SHORT.override(**{name: value}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_values_of_the_kinds_that_python_has_are_taken():
    for changes in (
        {"data": Path("here")},
        {"half_lives": [0.1, 10.0]},
        {"trainable": ["dt"]},
        {"learning_rate": np.float32(0.01), "seed": np.int64(1)},
        {"device": torch.device("cpu")},
    ):
        assert resolve("adding", length=20, **changes)


@pytest.mark.parametrize("value", ["foo", 1.5, True, None])
def test_a_permutation_that_cannot_be(value):
    with pytest.raises(ValueError, match="permutation must be"):
        resolve("psmnist", permutation=value)


def test_what_is_no_configuration():
    with pytest.raises(ValueError, match="not a configuration"):
        from_dictionary([1])


def test_the_neurons_memories_span_the_sequence():
    config = resolve("adding", length=300)
    layer = training.build(config, config.task.load(0)).layer
    half_lives = theory.half_life(config.model.dt, layer.oscillators().gamma.double(), config.model.epsilon)
    torch.testing.assert_close(half_lives[0].item(), 0.1 * 300, rtol=1e-3, atol=0)
    torch.testing.assert_close(half_lives[-1].item(), 10.0 * 300, rtol=1e-3, atol=0)


def test_the_neurons_periods_span_what_is_asked_for():
    config = resolve("adding", length=300, periods=(0.02, 2.0), epsilon=0.02, init="uncoupled")
    layer = training.build(config, config.task.load(0)).layer
    periods = theory.period(config.model.dt, layer.oscillators().gamma.double(), config.model.epsilon)
    torch.testing.assert_close(periods[0].item(), 0.02 * 300, rtol=1e-3, atol=0)
    torch.testing.assert_close(periods[-1].item(), 2.0 * 300, rtol=1e-3, atol=0)
    assert not layer.matrices().W.any()
    assert not layer.matrices().W_z.any()


def test_a_centred_layer_is_not_driven_by_the_average_input():
    config = resolve("adding", length=300)
    task = config.task.load(0)
    input, _, _ = task.training.batch(torch.arange(200), torch.Generator().manual_seed(0))
    centred, plain = (training.build(config.override(centre=c), task).layer for c in (True, False))
    drive = {layer: torch.tanh(input @ layer.matrices().V.T + layer.matrices().b) for layer in (centred, plain)}
    assert drive[centred].mean((0, 1)).abs().mean() < 0.5 * drive[plain].mean((0, 1)).abs().mean()


def test_adding_is_learned_at_a_small_length(tmp_path):
    run = training.fit(
        resolve("adding", length=30, hidden_size=32, steps=1000, evaluate_every=20, device="cpu"), tmp_path
    )
    assert run.result["test"] < 0.01
    rows = run.metrics()
    assert rows[-1]["metric"] < 0.01
    assert rows[0]["metric"] > rows[-1]["metric"]
    assert run.result["steps"] == rows[-1]["step"] < 1000


def test_same_seed_same_run_other_seed_another(tmp_path):
    weights = [
        training.fit(replace(SHORT, seed=seed), tmp_path / name).weights()
        for seed, name in ((0, "a"), (0, "b"), (1, "c"))
    ]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert not torch.equal(weights[0]["head.weight"], weights[2]["head.weight"])


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path):
    whole = training.fit(SHORT, tmp_path / "whole")

    def stop(progress):
        if progress.step == 27:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(SHORT, tmp_path / "parts", stop)
    assert not (tmp_path / "parts" / "result.json").exists()
    parts = training.resume(tmp_path / "parts")
    assert all(torch.equal(value, parts.weights()[key]) for key, value in whole.weights().items())
    assert [(r["step"], r["metric"]) for r in parts.metrics()] == [(r["step"], r["metric"]) for r in whole.metrics()]
    with pytest.raises(ValueError, match="is complete: there is nothing to resume"):
        training.resume(tmp_path / "parts")


def test_a_run_whose_weights_are_gone_is_not_complete(tmp_path):
    weights = training.fit(SHORT, tmp_path).weights()
    (tmp_path / "model.safetensors").unlink()
    again = training.resume(tmp_path)
    assert all(torch.equal(value, again.weights()[key]) for key, value in weights.items())


def test_a_run_stopped_before_its_first_checkpoint_starts_again(tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(SHORT, tmp_path, stop)
    assert training.resume(tmp_path).result["steps"] == 40


def test_evaluate_finds_the_recorded_figure(tmp_path):
    run = training.fit(SHORT.override(trainable=("dt", "gamma")), tmp_path)
    _, task, metric = training.evaluate(tmp_path)
    assert metric == pytest.approx(run.result["test"], rel=1e-6)
    assert task.trivial == pytest.approx(1 / 6)
    result = json.loads((tmp_path / "result.json").read_text())
    assert {"metric", "test", "steps", "seconds", "parameters", "machine", "version"} <= set(result)


@pytest.mark.parametrize("read", ["last", "every"])
def test_sequences_are_predicted_in_portions(read, monkeypatch):
    calls = []

    class Model(torch.nn.Linear):
        def forward(self, input):
            calls.append(input.shape[1])
            output = super().forward(input)
            return output if read == "every" else output.sum(0)

    evaluate = importlib.import_module("cornn.lab.training.evaluate")
    task = replace(SHORT.task.load(0), read=read)
    if read == "every":
        task = replace(task, score=lambda prediction, target: (prediction.sum((0, 2)) - target).square())
    model, part = Model(2, 1), task.test()

    def metric():
        return evaluate.metric(task, model, dict(model.named_parameters()), part, torch.Generator(), 50)

    whole = metric().item()
    monkeypatch.setattr(evaluate, "STEPS", 1300)
    assert metric().item() == pytest.approx(whole, rel=1e-6)
    assert calls == [1000, *[130] * 7, 90]


def test_an_evaluation_is_of_the_weights_and_buffers_that_are_given():
    config = resolve("adding", "paper", length=10, model="dtriv", hidden_size=8)
    task = config.task.load(0)
    one, other = (build(replace(config, seed=seed), task) for seed in (0, 1))
    one.layer.rebase_()
    assert dict(one.named_buffers())
    evaluate = importlib.import_module("cornn.lab.training.evaluate")

    def metric(model, given):
        return evaluate.metric(task, model, given, task.test(), torch.Generator(), 50)

    whole = {**dict(one.named_parameters()), **dict(one.named_buffers())}
    assert metric(other, whole) == metric(one, whole) != metric(other, dict(one.named_parameters()))
    with pytest.raises(KeyError):
        metric(other, {"unknown": torch.zeros(1)})


@pytest.mark.parametrize("model", ["lstm", "gru", "rnn", "cornn"])
def test_an_evaluation_leaves_the_model_alone(model):
    """PyTorch's own layers remember which tensors they were called with last."""
    config = resolve("adding", "paper", length=10, model=model, hidden_size=8)
    task = config.task.load(0)
    evaluated = build(config, task)
    before = {name: value.detach().clone() for name, value in evaluated.named_parameters()}
    others = {name: value + 1 for name, value in before.items()}
    evaluate = importlib.import_module("cornn.lab.training.evaluate")
    random = torch.Generator().manual_seed(0)
    first, second = (evaluate.metric(task, evaluated, w, task.test(), random, 50) for w in (before, others))
    assert first != second
    assert evaluated.training
    assert all(torch.equal(value, before[name]) for name, value in evaluated.named_parameters())
    if model != "cornn":
        held = evaluated.layer._flat_weights
        assert all(one is other for one, other in zip(held, evaluated.layer.parameters(), strict=True))


def test_evaluate_of_an_unfinished_run(tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(SHORT, tmp_path, stop)
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors: its training has not finished"):
        training.evaluate(tmp_path)


def test_a_diverged_run_stops_with_a_sentence_and_its_last_good_checkpoint(tmp_path):
    config = SHORT.override(learning_rate=1e30, clip=0)
    with pytest.raises(RuntimeError, match=r"the loss is .* at step 10: try a smaller learning_rate or dt"):
        training.fit(config, tmp_path)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("theory", [False, True])
def test_a_run_that_diverges_when_a_checkpoint_is_due(tmp_path, theory):
    config = SHORT.override(learning_rate=1e30, clip=0, save_every=0.0, evaluate_every=1, theory=theory)
    # The evaluation finds the divergence, so that no run is left to save.
    with pytest.raises(training.Diverged, match=r"the loss is .* at step 2: try a smaller learning_rate or dt"):
        training.fit(config, tmp_path / "loss")
    # The loss of a step is that before its update.
    with pytest.raises(training.Diverged, match=r"the weights are not finite after step 1: try"):
        training.fit(config.override(weight_decay=1e30), tmp_path / "weights")


def test_nothing_is_written_for_a_configuration_that_cannot_be(tmp_path):
    for changes in ({"dt": 2.0}, {"init": "none"}, {"length": 1}):
        with pytest.raises(ValueError):  # noqa: PT011 - the sentences are tested where they are made
            training.fit(SHORT.override(**changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="PyTorch finds no CUDA device: use the device cpu or auto instead of cuda"):
        training.fit(SHORT.override(device="cuda"), tmp_path / "run")


def test_where_the_layer_stands_in_the_theory_is_recorded_on_request(tmp_path):
    run = training.fit(replace(SHORT, theory=True), tmp_path / "theory")
    rows = run.metrics()
    assert len(rows) == 4
    assert all(row["theory"]["eta"] > 0 for row in rows)
    assert rows[0]["theory"]["W_norm"] != rows[-1]["theory"]["W_norm"]
    plain = training.fit(SHORT, tmp_path / "plain")
    assert "theory" not in plain.metrics()[0]
    assert plain.result["test"] == run.result["test"]
    with pytest.raises(ValueError, match="theory needs the model cornn, got lstm"):
        training.fit(SHORT.override(theory=True, model="lstm"), tmp_path / "lstm")
