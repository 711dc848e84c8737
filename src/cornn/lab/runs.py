"""Write the folder of a run. `cornn.artifacts` describes its content, and reads it.

Files are written atomically; metrics.jsonl grows by complete lines. The order of writes makes every moment safe to stop
at: the metrics are synced before the checkpoint that refers to them, the previous checkpoint is kept, and the manifest,
which makes a run complete, comes last. While a process trains in the folder it holds a lock on `.lock`, which is
released when the process ends.
"""

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cornn._atomic import TEMPORARY, stage_write, write_atomically
from cornn._checksums import compute_checksum, seal_zip
from cornn._extras import missing_extra
from cornn._json import read_bytes
from cornn.artifacts import (
    BEFORE,
    CHECKPOINT,
    CONFIG,
    MANIFEST,
    METRICS,
    RESULT,
    SEEDS,
    WEIGHTS,
    RunArtifact,
    check_row,
    load_run,
    write_manifest,
)
from cornn.models import SequenceModel
from cornn.saved_models import describe_model, pack_model


@dataclass(frozen=True)
class Run(RunArtifact):
    """A run folder that is written to."""

    def log(self, row: Mapping[str, object]) -> None:
        """Append a row to the metrics."""
        path = self.path / METRICS
        with _explaining_errors(path), open(path, "a", encoding="utf8") as file:
            file.write(json.dumps(row) + "\n")

    def drop_metrics_after(self, step: int) -> None:
        """Drop the metrics after `step`, which will be measured again."""
        path = self.path / METRICS
        lines = (read_bytes(path) if path.exists() else b"").splitlines(keepends=True)
        remaining = [
            line
            for number, line in enumerate(lines, 1)
            if line.endswith(b"\n") and _read_step(line, path, number) <= step
        ]
        _write(path, b"".join(remaining))

    def sync_metrics(self) -> dict[str, object]:
        """Write the metrics to the disk itself, and return their length and checksum for a checkpoint."""
        path = self.path / METRICS
        if not path.exists():
            return {"bytes": 0, "sha256": compute_checksum(b"")}
        with _explaining_errors(path), open(path, "rb") as file:
            os.fsync(file.fileno())
            content = file.read()
        return {"bytes": len(content), "sha256": compute_checksum(content)}

    def restore_previous_checkpoint(self) -> None:
        """Replace the last checkpoint by the previous one."""
        os.replace(self.path / BEFORE, self.path / CHECKPOINT)

    def save_model(self, model: SequenceModel, weights: Mapping[str, torch.Tensor]) -> None:
        """Save weights together with the arguments of the model that they are for."""
        _write(self.path / WEIGHTS, pack_model(weights, describe_model(model)))

    def save_result(self, result: Mapping[str, object]) -> None:
        """Save the result and then the manifest, which makes the run complete."""
        write_json(self.path / RESULT, result, remedy=_resume_remedy(self.path))
        names = [name for name in (CONFIG, METRICS, WEIGHTS, RESULT) if (self.path / name).exists()]
        files = {name: compute_checksum(read_bytes(self.path / name)) for name in names}
        files |= {name: checksum for name, checksum in (self.manifest.files or {}).items() if name == CONFIG}
        with _explaining_errors(self.path / MANIFEST):
            write_manifest(self.path, "run", files)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
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
        except OSError as error:
            raise OSError(
                f"cannot write in {self.path} ({_describe_reason(error)}): copy the folder to a place where you may "
                "write, and resume there"
            ) from error
        try:
            for leftover in self.path.glob(f"{TEMPORARY}*"):
                leftover.unlink()
            yield
        finally:
            lock.release()


def _read_step(line: bytes, path: Path, number: int) -> int:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number} is damaged: {error}") from error
    return check_row(row, path, number)


def save_checkpoints(contents: Sequence[tuple[Run, Mapping[str, object]]]) -> None:
    """Write the checkpoints of runs, which, if they are trained together, must resume from the same step.

    Each run keeps its previous checkpoint: for runs trained together, so that after an interruption all have one of the
    same step; for all, in case that the last one is damaged.
    """
    with contextlib.ExitStack() as stack:
        for run, content in contents:
            # When PyTorch cannot write a file its error has no reason, so it writes to memory.
            memory = io.BytesIO()
            torch.save({**content, "metrics": run.sync_metrics()}, memory)
            stack.enter_context(_explaining_errors(run.path / CHECKPOINT))
            stack.enter_context(stage_write(run.path / CHECKPOINT, seal_zip(memory.getbuffer())))
        for run, _ in contents:
            if (run.path / CHECKPOINT).exists():
                _link(run.path / CHECKPOINT, run.path / BEFORE)


def _link(path: Path, other: Path) -> None:
    """Give a file a second name, which replaces another file atomically."""
    temporary = other.with_name(f"{TEMPORARY}{other.name}-{os.getpid()}")
    try:
        with _explaining_errors(other):
            try:
                os.link(path, temporary)
            except OSError:  # a file system without links
                shutil.copyfile(path, temporary)
            os.replace(temporary, other)
    finally:
        temporary.unlink(missing_ok=True)


def create(path: Path, config: Mapping[str, object]) -> Run:
    """Create a run folder with its configuration. `path` must not contain a run."""
    if (path / CONFIG).exists():
        finished = (path / RESULT).exists()
        remedy = "remove it" if finished else f"continue with `cornn resume {path}`"
        raise FileExistsError(f"{path} already contains a run: choose another --out, or {remedy}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / CONFIG, config)
        write_manifest(path, "run", {CONFIG: compute_checksum(read_bytes(path / CONFIG))})
    except OSError as error:
        raise OSError(
            f"cannot write the run folder {path} ({_describe_reason(error)}): choose another with --out"
        ) from error
    return Run(path)


def open_run(path: Path) -> Run:
    """Open a run folder to read it or to continue in it."""
    return Run(load_run(path).path)


def write_json(
    path: Path, content: Mapping[str, object], indent: int | None = 2, *, remedy: str = "run the same command again"
) -> None:
    """Write a JSON file atomically. An error ends with the remedy."""
    _write(path, (json.dumps(content, indent=indent) + "\n").encode(), remedy)


def _write(path: Path, content: bytes, remedy: str | None = None) -> None:
    with _explaining_errors(path, remedy):
        write_atomically(path, content)


@contextlib.contextmanager
def _explaining_errors(path: Path, remedy: str | None = None) -> Iterator[None]:
    """Name the file in errors of writing it. The remedy is to resume the run to whose folder it belongs, or another."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # it names another file of the same step already
            raise
        problem = f"cannot write {path} ({_describe_reason(error)})"
        remedy = remedy or _resume_remedy(path.parent)
        raise OSError(f"{problem}: the previous file is intact; fix the cause, then {remedy}") from error


def _resume_remedy(run: Path) -> str:
    """Return the remedy that continues a run; that of several seeds as a whole."""
    return f"run `cornn resume {run.parent if (run.parent / SEEDS).exists() else run}`"


def _describe_reason(error: BaseException) -> str:
    """Return the system's reason for a failed write."""
    cause = error.__cause__ or error
    return getattr(cause, "strerror", None) or str(cause)
