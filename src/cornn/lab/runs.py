"""The run folder: what is written, and what is read back.

    config.json        the resolved configuration, the version and the machine
    metrics.jsonl      one line an evaluation
    checkpoint.pt      everything that training needs to go on (runs trained side by side: also the one before it)
    model.safetensors  the trained weights
    result.json        what was reached; written last, so a folder that has it is complete

Every file appears whole or not at all; metrics.jsonl grows by whole lines. Nothing that a file holds is ever executed.
While a process trains in the folder it holds the lock of `.lock`, which goes with it, however it ends.
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
        """Whether it has a result, and the weights that the result is of."""
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
        """Drop what was logged after `step`: it will be measured again."""
        rows = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        _write(self.path / "metrics.jsonl", text.encode())

    def save_checkpoint(self, content: Mapping[str, object]) -> None:
        save_checkpoints([(self, content)])

    def checkpoint(self, before: bool = False) -> dict | None:
        """The last checkpoint, if there is one; `before`: the one before it, which runs that go together keep."""
        path = self.path / (BEFORE if before else CHECKPOINT)
        if not path.exists():
            return None
        try:
            return torch.load(path, weights_only=True, map_location="cpu")
        except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
            raise ValueError(f"{path} is damaged: remove it, and training begins anew") from error

    def go_back(self) -> None:
        """The checkpoint before the last one becomes the last."""
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
            raise ValueError(f"{path} is damaged ({error}): remove it, and `cornn resume {self.path}`") from error

    def save_result(self, result: Mapping[str, object]) -> None:
        write_json(self.path / "result.json", result)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; what another left half-written is cleared away."""
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
    """Checkpoints of runs that go together, which must be able to go on from the same step.

    Each keeps the one before: wherever this is broken off, all have one of the same step.
    """
    with contextlib.ExitStack() as together:
        for run, content in contents:
            # PyTorch does not say what is wrong when it cannot write a file: it is given memory in its place.
            memory = io.BytesIO()
            torch.save(dict(content), memory)
            together.enter_context(_written(run.path / CHECKPOINT, memory.getbuffer()))
        for run, _ in contents if len(contents) > 1 else ():
            if (run.path / CHECKPOINT).exists():
                _write(run.path / BEFORE, (run.path / CHECKPOINT).read_bytes())


def create(path: Path, config: Mapping[str, object]) -> Run:
    """A new run folder with its configuration; `path` must not hold a run already."""
    if (path / "config.json").exists():
        done = (path / "result.json").exists()
        other = "remove it" if done else f"go on with `cornn resume {path}`"
        raise FileExistsError(f"{path} holds a run already: choose another --out, or {other}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "config.json", config)
    except OSError as error:
        raise OSError(f"cannot write the run folder {path} ({_reason(error)}): choose another with --out") from error
    return Run(path)


def open_run(path: Path) -> Run:
    if (path / "seeds.json").exists():
        first = next(iter(sorted(path.glob("seed-*"))), path / "seed-0")
        raise FileNotFoundError(f"{path} holds the runs of several seeds: name one of them, such as {first}")
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
    """As `writing.written`; what goes wrong is said with how to go on."""
    try:
        with stage_write(path, content):
            yield
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot write {path} ({_reason(error)}): what was there before is as it was; see to it, then go on with "
        f"`cornn resume {path.parent}`"
    )


def _reason(error: BaseException) -> str:
    """Why a file could not be written, in the system's words."""
    cause = error.__cause__ or error
    return getattr(cause, "strerror", None) or str(cause)
