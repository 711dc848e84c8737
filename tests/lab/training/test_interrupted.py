"""Runs that are stopped, in every way there is, and go on."""

import errno
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import synthetic
import torch
from synthetic import Synthetic, assert_same_end, stop_at
from tolerances import FLOAT32

from cornn.artifacts import BEFORE, CHECKPOINT
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.runs import Run, save_checkpoints
from cornn.lab.training import loop

synthetic.register()
CONFIG = resolve("synthetic", noise=0.1, device="cpu", epochs=5, ema=0.9, schedule="cosine", save_every=0.0)


@pytest.mark.parametrize("seeds", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_killed_at_any_moment_a_run_ends_in_the_same_weights(tmp_path, monkeypatch, seeds):
    # Python's fork server has imported everything already, so that a process is there at once.
    monkeypatch.setenv("PYTHONPATH", str(Path(synthetic.__file__).parent), prepend=os.pathsep)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["synthetic", "lightning_fabric"])
    changes = {"epochs": 40} | ({"save_every": 0.0} if seeds is None else {"save_every": 0.02, "seeds": seeds})
    begin = (json.dumps({"noise": 0.1}), json.dumps(changes))
    killed, first_file = tmp_path / "killed", "config.json" if seeds is None else "seeds.json"

    def start(name, *arguments):
        process = context.Process(target=synthetic.main, args=(tmp_path / name, *arguments))
        process.start()
        return process

    whole = start("whole", *begin)
    whole.join()
    assert whole.exitcode == 0
    moments, kills = random.Random(seeds or 0), 0
    process = start("killed", *begin)
    while kills < 3:
        while process.is_alive() and not (killed / first_file).exists():
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.15))
        if not process.is_alive():
            break
        process.kill()
        process.join()
        kills += 1
        process = start("killed")
    process.join()
    assert process.exitcode == 0
    assert kills > 0
    for name in [""] if seeds is None else [f"seed-{seed}" for seed in range(seeds)]:
        assert_same_end(Run(tmp_path / "whole" / name), Run(killed / name))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_leaves_in_the_middle_of_an_epoch(tmp_path, number):
    config, handler = CONFIG.override(save_every=1e9), signal.getsignal(number)
    whole = training.fit(config, tmp_path / "whole")

    def watch(progress):
        if progress.step == 6:
            os.kill(os.getpid(), number)

    with pytest.raises(training.Stopped) as stopped:
        training.fit(config, tmp_path / "parts", watch)
    assert stopped.value.signal_number == number
    assert Run(tmp_path / "parts").checkpoint()["step"] == 7
    assert signal.getsignal(number) == handler
    assert_same_end(whole, training.resume(tmp_path / "parts"))


def test_a_training_under_nohup_goes_on_when_the_terminal_is_closed(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert training.fit(CONFIG, tmp_path, lambda progress: os.kill(os.getpid(), signal.SIGHUP)).complete
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_that_was_over_but_not_tested_is_tested(tmp_path, monkeypatch):
    whole = training.fit(CONFIG, tmp_path / "whole")
    fails = Synthetic._split

    def vanished(self, size, name, *arguments):
        if name == "test":
            raise FileNotFoundError("no test data")
        return fails(self, size, name, *arguments)

    monkeypatch.setattr(Synthetic, "_split", vanished)
    with pytest.raises(FileNotFoundError, match="no test data"):
        training.fit(CONFIG, tmp_path / "parts")
    monkeypatch.undo()
    assert_same_end(whole, training.resume(tmp_path / "parts"))


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    whole = training.fit(CONFIG, tmp_path / "whole")
    real, calls = os.fsync, []

    def full(handle):
        calls.append(1)
        if len(calls) > 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*checkpoint.pt \(No space left on device\).*`cornn resume"):
        training.fit(CONFIG, tmp_path / "parts")
    monkeypatch.undo()
    assert 0 < Run(tmp_path / "parts").checkpoint()["step"] < 8
    assert_same_end(whole, training.resume(tmp_path / "parts"))


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    config = resolve("synthetic", device="cpu", learning_rate=1e39, save_every=0.0)
    with pytest.raises(RuntimeError, match=r"not finite after step|the loss is nan"):
        training.fit(config, tmp_path)
    checkpoint = Run(tmp_path).checkpoint()
    assert checkpoint is None or checkpoint["weights"].isfinite().all()
    assert not (tmp_path / "result.json").exists()


def test_vanished_data_is_said(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG.override(data=data), tmp_path / "run", stop_at(5))
    data.rmdir()
    with pytest.raises(FileNotFoundError, match="no synthetic data under"):
        training.resume(tmp_path / "run")
    assert Run(tmp_path / "run").checkpoint()["step"] == 5
    data.mkdir()
    assert training.resume(tmp_path / "run").result is not None


def test_a_run_goes_on_on_another_kind_of_device(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path, stop_at(5))
    run = Run(tmp_path)
    save_checkpoints([(run, run.checkpoint() | {"random": torch.zeros(16, dtype=torch.uint8)})])  # as a GPU's is
    assert training.resume(tmp_path).result["steps"] == 20


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_an_incomplete_checkpoint_is_named_with_what_can_still_be_used(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path, stop_at(5))
    path, before = tmp_path / CHECKPOINT, tmp_path / BEFORE
    whole = Run(tmp_path).checkpoint()
    for key in ("config", "best", "weights", "random"):
        torch.save({name: value for name, value in whole.items() if name != key}, path)  # as version 0.1.0 wrote it
        before.unlink(missing_ok=True)
        with pytest.raises(ValueError, match=rf"checkpoint\.pt is incomplete, it lacks '{key}': remove checkpoint\.pt"):
            training.resume(tmp_path)
    torch.save(whole, before)
    with pytest.raises(ValueError, match=r"it lacks 'random': the previous checkpoint is kept: `mv .*, then resume$"):
        training.resume(tmp_path)


@pytest.mark.filterwarnings("ignore:.*has no checksum")
@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("weights", lambda old: {"x": old}, r"weights must be torch.float32 \(\d+,\), got dict"),
        ("weights", lambda old: old[:1], r"weights must be torch.float32 \(\d+,\), got torch.float32 \(1,\)"),
        ("average", torch.Tensor.double, r"average must be torch.float32 .*, got torch.float64"),
        ("loss", lambda old: old[None], r"loss must be torch.float32 \(\), got torch.float32 \(1,\)"),
        ("best", lambda old: old | {"weights": 1.0}, "the best weights must be .*, got float"),
        ("best", lambda old: old | {"metric": "x"}, "a metric must be a number, got 'x'"),
        ("best", lambda old: [1], "list"),
        ("seconds", lambda old: None, "seconds must be a number, got None"),
        ("evaluated", lambda old: -1, "evaluated must not be below 0, got -1"),
        ("random", lambda old: 3, "'int' object has no attribute 'shape'"),
        ("config", lambda old: old | {"budget": old["budget"] | {"epochs": []}}, "epochs"),
    ],
)
def test_a_checkpoint_with_other_values_is_one_sentence(tmp_path, key, value, problem):
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path, stop_at(6))
    path = tmp_path / CHECKPOINT
    whole = Run(tmp_path).checkpoint()
    torch.save(whole | {key: value(whole[key])}, path)
    with pytest.raises(
        ValueError, match=rf"checkpoint\.pt is damaged \(.*{problem}.*\): the previous checkpoint is kept"
    ):
        training.resume(tmp_path)


OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB. Process 1"
LOST = "CUDA error: device lost\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"


def raise_in_capture():
    try:
        raise torch.OutOfMemoryError(OUT_OF_MEMORY)
    except RuntimeError:
        raise RuntimeError("the capture failed") from None  # its context still has the reason


def raise_device_lost():
    raise torch.AcceleratorError(LOST)


@pytest.mark.parametrize(
    ("seeds", "fail", "words"),
    [
        (
            None,
            raise_in_capture,
            "CUDA out of memory. Tried to allocate 2.00 GiB, at step 4. Free memory on it, or train with smaller "
            "batches.",
        ),
        (2, raise_device_lost, "the GPU failed (CUDA error: device lost), at step 4."),
    ],
)
def test_a_device_that_fails_is_a_sentence_and_the_run_resumes(tmp_path, monkeypatch, cornn, fail, words, seeds):
    """On the CPU, with the errors that PyTorch raises for a GPU; tests/gpu has real ones."""
    out, real, calls = tmp_path / "parts", loop.take_step, []

    def start(folder):
        if seeds is None:
            training.fit(CONFIG, folder)
        else:
            training.fit_seeds(CONFIG, range(seeds), folder)

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 4:
            fail()
        return real(*arguments)

    start(tmp_path / "whole")
    monkeypatch.setattr(loop, "take_step", failing)
    monkeypatch.setattr("cornn.cli.run", lambda arguments: start(out))
    code, _, err = cornn("train")
    assert (code, err) == (2, f"cornn: {words} `cornn resume {out}` continues from the last checkpoint.\n")
    monkeypatch.setattr(loop, "take_step", real)
    (training.resume if seeds is None else training.resume_seeds)(out)
    for name in [""] if seeds is None else ["seed-0", "seed-1"]:
        assert_same_end(Run(tmp_path / "whole" / name), Run(out / name))


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_a_run_whose_gpu_is_gone_resumes_on_the_cpu(tmp_path, cornn, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path / "run", stop_at(5))
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    content["place"]["device"] = "cuda"
    (tmp_path / "run" / "config.json").write_text(json.dumps(content))
    (tmp_path / "run" / "artifact.json").unlink()
    code, _, err = cornn("resume", tmp_path / "run")
    assert code == 2
    assert err.endswith("cornn: PyTorch finds no CUDA device: use the device cpu or auto instead of cuda\n")
    code, _, err = cornn("resume", tmp_path / "run", "--device", "cpu", "--quiet")
    assert code == 0, err
    assert Run(tmp_path / "run").result["steps"] == 20


def test_a_second_process_is_refused(tmp_path):
    def second(progress):
        with pytest.raises(RuntimeError, match="another process is training in"):
            training.resume(tmp_path / "run")

    training.fit(CONFIG.override(epochs=1), tmp_path / "run", second)


def test_a_second_process_is_refused_before_it_changes_a_checkpoint(tmp_path):
    def second(progress):
        if progress.step != 3:
            return
        Run(tmp_path / "seed-1").restore_previous_checkpoint()  # as if it had not been saved yet
        with pytest.raises(RuntimeError, match="another process is training in"):
            training.resume_seeds(tmp_path)
        assert Run(tmp_path / "seed-0").checkpoint()["step"] == 3

    training.fit_seeds(CONFIG.override(epochs=1, save_every=0.0), (0, 1), tmp_path, second)


def test_a_run_that_another_process_has_continued_is_not_repeated(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG.override(save_every=0.0), tmp_path, stop_at(5))
    old = Run(tmp_path).checkpoint()
    with pytest.raises(KeyboardInterrupt):
        training.resume(tmp_path, stop_at(10))
    read = Run.checkpoint
    answers = iter([old])
    monkeypatch.setattr(Run, "checkpoint", lambda run: next(answers, None) or read(run))
    metrics = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(RuntimeError, match=r"another process has continued .* in the meantime: run the command again"):
        training.resume(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_a_changed_configuration_is_refused_with_the_difference(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path, stop_at(5))
    content = json.loads((tmp_path / "config.json").read_text())
    content["optimiser"]["learning_rate"] = 0.5
    content["task"]["noise"] = 0.0
    content["place"]["save_every"] = 3.0
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"config.json is damaged.*if you edited it, remove artifact.json"):
        training.resume(tmp_path)
    (tmp_path / "artifact.json").unlink()
    difference = r"task.noise was 0.1, is 0.0; optimiser.learning_rate was 0.01, is 0.5"
    with pytest.raises(ValueError, match=rf"\({difference}\): undo the change, or use a new folder$"):
        training.resume(tmp_path)


@pytest.mark.slow
def test_two_processes_with_half_the_batch_each_end_in_the_same_weights(tmp_path):
    """Batches of 10 from 31 sequences: the last has one, so that one of the processes gets none."""
    options, changes = {"noise": 0.1, "size": 31}, {"clip": 0.5, "epochs": 4}
    script = Path(synthetic.__file__)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(
        [*command, str(tmp_path / "two"), json.dumps(options), json.dumps(changes)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    two = Run(tmp_path / "two")
    assert two.result["processes"] == 2
    one = training.fit(resolve("synthetic", **options, device="cpu", **changes), tmp_path / "one")
    for name, value in one.weights().items():
        torch.testing.assert_close(two.weights()[name], value, **FLOAT32)
    losses = [[row["loss"] for row in run.metrics()] for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
