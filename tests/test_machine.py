"""The device of a name, and the exit code of a command that a signal stops."""

import signal

import pytest
import torch

from cornn._machine import device_for, resolve_device
from cornn._signals import SignalStop, exit_code


def test_a_name_gives_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    assert [device_for(name) for name in ("cpu", "cuda:1")] == ["cpu", "cuda"]


@pytest.mark.parametrize("name", ["foo", "", "cpu:x"])
def test_an_unknown_device_is_an_error_with_the_known_ones(name):
    with pytest.raises(ValueError, match=rf"^unknown device '{name}': choose one of auto, cpu, cuda, cuda:0"):
        resolve_device(name)


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="PyTorch finds no CUDA device: use the device cpu or auto instead of cuda:1"):
        resolve_device("cuda:1")


def test_a_signal_gives_the_exit_code():
    assert exit_code(KeyboardInterrupt()) == 128 + signal.SIGINT
    assert exit_code(SignalStop(signal.SIGTERM)) == 128 + signal.SIGTERM
