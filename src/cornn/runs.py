"""The run folder: what is written, and what is read back.

    config.json        the resolved configuration, the version and the machine
    metrics.jsonl      one line an evaluation
    checkpoint.pt      everything that training needs to go on
    model.safetensors  the trained weights
    result.json        what was reached; written last, so a folder that has it is complete

Every file appears whole or not at all; metrics.jsonl grows by whole lines. Nothing that a file holds is ever executed.
"""

import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

__all__ = ["Run", "create", "machine", "open_run"]


@dataclass(frozen=True)
class Run:
    """A run folder on disk."""

    path: Path

    @property
    def config(self) -> dict:
        return _read_json(self.path / "config.json")

    @property
    def result(self) -> dict | None:
        path = self.path / "result.json"
        return _read_json(path) if path.exists() else None

    def metrics(self) -> list[dict]:
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf8").splitlines()
        # A line that was being written when the machine stopped is not a measurement.
        return [json.loads(line) for line in lines if line.endswith("}")]

    def log(self, row: Mapping[str, object]) -> None:
        with open(self.path / "metrics.jsonl", "a", encoding="utf8") as file:
            file.write(json.dumps(row) + "\n")

    def forget_after(self, step: int) -> None:
        """Drop what was logged after `step`: it will be measured again."""
        rows = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        _write(self.path / "metrics.jsonl", lambda path: Path(path).write_text(text, encoding="utf8"))

    def save_checkpoint(self, content: Mapping[str, object]) -> None:
        _write(self.path / "checkpoint.pt", lambda path: torch.save(dict(content), path))

    def checkpoint(self) -> dict | None:
        path = self.path / "checkpoint.pt"
        return torch.load(path, weights_only=True, map_location="cpu") if path.exists() else None

    def save_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        _write(self.path / "model.safetensors", lambda path: save_file(whole, path))

    def weights(self) -> dict[str, torch.Tensor]:
        path = self.path / "model.safetensors"
        if not path.exists():
            raise FileNotFoundError(f"{self.path} has no model.safetensors: its training has not finished")
        return load_file(path)

    def save_result(self, result: Mapping[str, object]) -> None:
        _write_json(self.path / "result.json", result)


def create(path: Path, config: Mapping[str, object]) -> Run:
    """A new run folder with its configuration; `path` must not hold a run already."""
    if (path / "config.json").exists():
        raise FileExistsError(f"{path} holds a run already: choose another --out, or remove it")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _write_json(path / "config.json", config)
    except OSError as error:
        raise OSError(f"cannot write the run folder {path} ({error.strerror}): choose another with --out") from error
    return Run(path)


def open_run(path: Path) -> Run:
    if not (path / "config.json").exists():
        raise FileNotFoundError(f"{path} is not a run folder: it has no config.json")
    return Run(path)


def machine() -> dict[str, object]:
    """What a result was measured on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "gpu": gpu,
    }


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    text = json.dumps(content, indent=2) + "\n"
    _write(path, lambda temporary: Path(temporary).write_text(text, encoding="utf8"))


def _write(path: Path, write: Callable[[str], object]) -> None:
    """Write beside the file, then take its place: a reader, or a crash, never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
