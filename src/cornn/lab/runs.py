"""The run folder.

    config.json        the resolved configuration, the version and the machine
    metrics.jsonl      one line per evaluation
    checkpoint.pt      the state to resume from (runs trained side by side also keep the previous one)
    model.safetensors  the trained weights
    result.json        the result; written last, so a folder that has it is complete

Files are written atomically; metrics.jsonl grows by complete lines. No content is ever executed. While a process trains
in the folder it holds a lock on `.lock`, which is released when the process ends.
"""

import contextlib
import io
import json
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from cornn._atomic import TEMPORARY, stage_write
from cornn._extras import missing_extra
from cornn._json import read_json

__all__ = [
    "Run",
    "create",
    "open_run",
    "save_checkpoints",
    "write_json",
]


@dataclass(frozen=True)
class Run:
    """A run folder on disk."""

    path: Path

    @property
    def config(self) -> dict:
        return read_json(self.path / "config.json")

    @property
    def result(self) -> dict | None:
        path = self.path / "result.json"
        return read_json(path) if path.exists() else None

    @property
    def complete(self) -> bool:
        """Whether the result and its weights exist."""
        return self.result is not None and (self.path / "model.safetensors").exists()

    def metrics(self) -> list[dict]:
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf8").splitlines(keepends=True)
        # A line that was being written when the machine stopped is not a measurement.
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def log(self, row: Mapping[str, object]) -> None:
        path = self.path / "metrics.jsonl"
        try:
            with open(path, "a", encoding="utf8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise _unwritten(path, error) from error

    def forget_after(self, step: int) -> None:
        """Drop the metrics after `step`, which will be measured again."""
        rows = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        _write(self.path / "metrics.jsonl", text.encode())

    def save_checkpoint(self, content: Mapping[str, object]) -> None:
        save_checkpoints([(self, content)])

    def checkpoint(self, before: bool = False) -> dict | None:
        """Return the last checkpoint, if any; with `before` the previous one, which runs trained together keep."""
        path = self.path / (BEFORE if before else CHECKPOINT)
        if not path.exists():
            return None
        try:
            return torch.load(path, weights_only=True, map_location="cpu")
        except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
            raise ValueError(f"{path} is damaged: remove it to train from the start") from error

    def go_back(self) -> None:
        """Replace the last checkpoint by the previous one."""
        os.replace(self.path / BEFORE, self.path / CHECKPOINT)

    def save_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        _write(self.path / "model.safetensors", save(whole))

    def weights(self) -> dict[str, torch.Tensor]:
        path = self.path / "model.safetensors"
        if not path.exists():
            raise FileNotFoundError(f"{self.path} has no model.safetensors: its training has not finished")
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} is damaged ({error}): remove it and run `cornn resume {self.path}`") from error

    def save_result(self, result: Mapping[str, object]) -> None:
        write_json(self.path / "result.json", result)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process and remove temporary files of a previous one."""
        try:
            from filelock import FileLock, Timeout
        except ImportError:
            raise missing_extra("lab", "run folders need filelock") from None

        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RuntimeError(f"another process is training in {self.path}: wait for it, or stop it") from None
        try:
            for leftover in self.path.glob(f"{TEMPORARY}*"):
                leftover.unlink()
            yield
        finally:
            lock.release()


def save_checkpoints(contents: Sequence[tuple[Run, Mapping[str, object]]]) -> None:
    """Write the checkpoints of runs trained together, which must resume from the same step.

    Each run keeps its previous checkpoint, so that after an interruption all have one of the same step.
    """
    with contextlib.ExitStack() as together:
        for run, content in contents:
            # When PyTorch cannot write a file its error has no reason, so it writes to memory.
            memory = io.BytesIO()
            torch.save(dict(content), memory)
            together.enter_context(_written(run.path / CHECKPOINT, memory.getbuffer()))
        for run, _ in contents if len(contents) > 1 else ():
            if (run.path / CHECKPOINT).exists():
                _write(run.path / BEFORE, (run.path / CHECKPOINT).read_bytes())


def create(path: Path, config: Mapping[str, object]) -> Run:
    """Create a run folder with its configuration. `path` must not contain a run."""
    if (path / "config.json").exists():
        done = (path / "result.json").exists()
        other = "remove it" if done else f"continue with `cornn resume {path}`"
        raise FileExistsError(f"{path} already contains a run: choose another --out, or {other}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "config.json", config)
    except OSError as error:
        raise OSError(f"cannot write the run folder {path} ({_reason(error)}): choose another with --out") from error
    return Run(path)


def open_run(path: Path) -> Run:
    if (path / "seeds.json").exists():
        first = next(iter(sorted(path.glob("seed-*"))), path / "seed-0")
        raise FileNotFoundError(f"{path} contains the runs of several seeds: choose one of them, such as {first}")
    if not (path / "config.json").exists():
        raise FileNotFoundError(f"{path} is not a run folder: it has no config.json")
    return Run(path)


def write_json(path: Path, content: Mapping[str, object], indent: int | None = 2) -> None:
    _write(path, (json.dumps(content, indent=indent) + "\n").encode())


CHECKPOINT, BEFORE = "checkpoint.pt", "checkpoint-before.pt"


def _write(path: Path, content: bytes) -> None:
    with _written(path, content):
        pass


@contextlib.contextmanager
def _written(path: Path, content: bytes | memoryview) -> Iterator[None]:
    """As `stage_write`, but an error says how to continue."""
    try:
        with stage_write(path, content):
            yield
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot write {path} ({_reason(error)}): the previous file is intact; fix the cause, then run "
        f"`cornn resume {path.parent}`"
    )


def _reason(error: BaseException) -> str:
    """Return the system's reason for a failed write."""
    cause = error.__cause__ or error
    return getattr(cause, "strerror", None) or str(cause)
