"""The machine that a result comes from."""

import platform
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["device_for", "machine", "ran_on", "resolve_device"]


def machine() -> dict[str, object]:
    """Describe this machine, for the record of a result."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "gpu": gpu,
    }


def resolve_device(name: str) -> torch.device:
    """Return the device of a name: "auto", "cpu", "cuda", "cuda:1", … One that is not there is an error."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}: choose one of auto, cpu, cuda, cuda:0, cuda:1, …") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"PyTorch finds no CUDA device: use the device cpu or auto instead of {name}")
    return device


def device_for(name: str) -> str:
    """Return the kind of the device of a name, such as "cpu" or "cuda"."""
    return resolve_device(name).type


def ran_on(result: Mapping[str, Any]) -> str:
    """Return the name of the device of a result: the GPU's, or "CPU" if the run did not use the machine's GPU."""
    on_gpu = torch.device(result["device"]).type == "cuda"
    return result["machine"]["gpu"].removeprefix("NVIDIA ") if on_gpu else "CPU"
