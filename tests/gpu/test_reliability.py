"""Reliability on a GPU: kills, too little memory in a captured step, a device that fails, the kernels kept on disk."""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from cornn import CoRNN
from cornn._device_errors import DeviceError
from cornn.engine._kernel_cache import write_kernel
from cornn.engine.backends.cuda import backend, nvrtc, weights
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.runs import Run
from cornn.lab.training import graph

sys.path.insert(0, str(Path(__file__).parents[1] / "lab" / "training"))
import synthetic
from synthetic import assert_same_end, stop_at

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
synthetic.register()

SYNTHETIC = Path(synthetic.__file__)
OPTIONS, CHANGES = {"noise": 0.1}, {"device": "cuda", "ema": 0.9, "schedule": "cosine"}
CONFIG = resolve("synthetic", **OPTIONS, **CHANGES, epochs=5, save_every=0.0)


@pytest.mark.parametrize("seeds", [None, 3])
def test_killed_a_run_ends_in_the_same_weights(tmp_path, seeds):
    changes = CHANGES | {"epochs": 800, "save_every": 0.05}
    config, killed = resolve("synthetic", **OPTIONS, **changes), tmp_path / "killed"
    own = [""] if seeds is None else [f"seed-{seed}" for seed in range(seeds)]
    command = [sys.executable, str(SYNTHETIC), str(killed), json.dumps(OPTIONS), json.dumps(changes | {"seeds": seeds})]
    process = subprocess.Popen(command)
    try:
        while process.poll() is None and not (killed / own[-1] / "checkpoint.pt").exists():
            time.sleep(0.005)
        time.sleep(random.Random(seeds or 0).uniform(0.0, 0.3))
    finally:
        process.kill()
        process.wait()
    assert not any(Run(killed / name).complete for name in own)
    if seeds is None:
        training.resume(killed)
        training.fit(config, tmp_path / "whole")
    else:
        training.resume_seeds(killed)
        training.fit_seeds(config, range(seeds), tmp_path / "whole")
    for name in own:
        assert_same_end(Run(tmp_path / "whole" / name), Run(killed / name))


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # PyTorch's, when a capture fails
@pytest.mark.parametrize("call", [1, 1 + graph.WARM_UP_STEPS], ids=["warm-up", "capture"])
def test_too_little_memory_in_a_captured_step_is_a_sentence_and_the_run_resumes(tmp_path, monkeypatch, call):
    whole = training.fit(CONFIG, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        training.fit(CONFIG, tmp_path / "parts", stop_at(6))
    calls, real = [], graph.take_step

    def exhausted(*arguments):
        calls.append(1)
        if len(calls) == call:
            torch.empty(1 << 46, dtype=torch.uint8, device="cuda")
        return real(*arguments)

    monkeypatch.setattr(graph, "take_step", exhausted)
    with pytest.raises(DeviceError, match=r"out of memory.*at step 7\. .*smaller batches\. `cornn resume .*parts`"):
        training.resume(tmp_path / "parts")
    assert len(calls) == call
    monkeypatch.undo()
    assert Run(tmp_path / "parts").checkpoint()["step"] == 6
    assert_same_end(whole, training.resume(tmp_path / "parts"))  # in the same process


FAILS = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, {folder!r})
from synthetic import register
from cornn import __main__ as program
from cornn.lab import training
from cornn.lab.recipes import resolve

register()

def fail(progress):
    if progress.step == 6:
        torch._assert_async(torch.zeros((), device="cuda"))  # no kernel runs on this device any more

config = resolve("synthetic", **{options!r}, epochs=5, save_every=0.0)
program.cli.run = lambda arguments: training.fit(config, Path({out!r}), fail)
program.main()
"""


def test_a_device_that_fails_is_a_sentence_and_the_run_resumes(tmp_path):
    out = tmp_path / "parts"
    script = FAILS.format(folder=str(SYNTHETIC.parent), options=OPTIONS | CHANGES, out=str(out))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("cornn: ")]
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(lines) == 1
    assert "the GPU failed (" in lines[0]
    assert f"`cornn resume {out}` continues from the last checkpoint." in lines[0]
    assert 0 < Run(out).checkpoint()["step"] <= 6
    assert_same_end(training.fit(CONFIG, tmp_path / "whole"), training.resume(out))


def forget_kernels() -> None:
    """Forget the loaded kernels, so that the next call reads them from disk."""
    backend._prepare.cache_clear()
    weights._prepare.cache_clear()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "kernels"))
    forget_kernels()
    yield tmp_path / "kernels"
    forget_kernels()


def compute() -> bytes:
    torch.manual_seed(0)
    layer = CoRNN(2, 32).cuda()
    output, _ = layer(torch.linspace(-1, 1, 40, device="cuda").reshape(10, 2, 2))
    output.square().sum().backward()
    return b"".join(x.detach().cpu().numpy().tobytes() for x in (output, *(own.grad for own in layer.parameters())))


def test_damaged_kernels_are_compiled_again(cache):
    expected, draw = compute(), random.Random(0)
    files = sorted(cache.iterdir())
    whole = [path.read_bytes() for path in files]
    assert len(files) >= 2
    for number, path in enumerate(files):
        damaged = bytearray(whole[number])
        damaged[draw.randrange(len(damaged))] ^= 1
        path.write_bytes([bytes(damaged), whole[number][:100], whole[number - 1]][number % 3])
    forget_kernels()
    assert compute() == expected
    for path in files:  # as good as before, if not the same to the bit
        assert nvrtc._read(path) is not None


def test_a_cache_that_cannot_be_written_is_no_error(cache):
    cache.write_text("a file, not a folder")
    assert len(compute()) > 0
    assert cache.is_file()


def test_a_kernel_that_the_driver_refuses_is_a_sentence(cache):
    compute()
    for path in cache.iterdir():
        content = b"machine code of another planet"
        write_kernel(path, nvrtc._seal(path, content) + content)
    forget_kernels()
    with pytest.raises(RuntimeError, match=r"the driver could not load .*\.cu for sm_\d+ .*update the NVIDIA driver"):
        compute()


def test_processes_that_compile_the_same_kernels_agree(cache):
    script = "import sys, hashlib; from test_reliability import compute; print(hashlib.sha256(compute()).hexdigest())"
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-c", script]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    answers = {process.communicate()[0].strip() for process in started}
    assert answers == {hashlib.sha256(compute()).hexdigest()}
    assert {path.suffix for path in cache.iterdir()} == {".cubin"}
