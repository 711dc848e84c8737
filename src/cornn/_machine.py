"""The machine and the commit that a result comes from."""

import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["commit", "device_for", "machine", "ran_on"]


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
    on_gpu = result["device"].startswith("cuda")
    return result["machine"]["gpu"].removeprefix("NVIDIA ") if on_gpu else "CPU"


def commit() -> str | None:
    """Return the commit of this package's source, with a "+" if it has local changes; None outside a checkout."""
    source = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(source), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not git("ls-files", "_machine.py"):
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", str(source)) else "")
    except (OSError, subprocess.SubprocessError):
        return None
