"""The machine that a result comes from."""

import platform
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["device_for", "machine", "ran_on"]


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


def device_for(asked: str) -> str:
    """Return "cpu" or "cuda" for a `--device` that may be "auto"."""
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"


def ran_on(result: Mapping[str, Any]) -> str:
    """Return the name of the device of a result: the GPU's, or "CPU" if the run did not use the machine's GPU."""
    on_gpu = torch.device(result["device"]).type == "cuda"
    return result["machine"]["gpu"].removeprefix("NVIDIA ") if on_gpu else "CPU"
