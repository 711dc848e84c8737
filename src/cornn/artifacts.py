"""Saved folders: what they contain, and the only module that opens them.

There are two kinds. `cornn train` writes a run, `cornn fit` writes an estimator:

    artifact.json      the manifest: format, kind, version, and the SHA-256 of every file that is read back
    config.json        the configuration of the run, or the layout of the data and the task
    model.safetensors  the trained weights and the arguments of the model, or the estimator
    metrics.jsonl      one line per evaluation, or per epoch
    result.json        the test result
    checkpoint.pt      run: the state to resume from; checkpoint-before.pt is the previous one

The manifest is written last and atomically. It covers a file from the moment it is listed there. checkpoint.pt and
model.safetensors also carry their own checksums, so that a run can replace its checkpoint at any moment, and a single
file can be passed on. Files of version 0.1.0 have no checksums; they load with a warning. Nothing in them is executed.
"""

import io
import os
import pickle
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cornn._atomic import TEMPORARY, write_atomically
from cornn._checked import convert, decode
from cornn._checksums import (
    DamagedFileError,
    compute_checksum,
    seal_json,
    unseal_json,
    unseal_zip,
    warn_unchecked,
)
from cornn._json import naming, parse_json, parse_json_lines, read_bytes
from cornn._version import __version__
from cornn.models import SequenceModel
from cornn.saved_models import ModelSpec, describe_first_format, unpack_model

__all__ = [
    "BEFORE",
    "CHECKPOINT",
    "CONFIG",
    "FORMAT",
    "MANIFEST",
    "METRICS",
    "RESULT",
    "WEIGHTS",
    "Artifact",
    "EstimatorArtifact",
    "Kind",
    "Manifest",
    "RunArtifact",
    "check_row",
    "find_runs",
    "is_saved",
    "load",
    "load_estimator",
    "load_run",
    "write_folder",
    "write_manifest",
]

FORMAT = 2
"""Version of the format. Version 1, of cornn 0.1.0, has no manifest."""
MANIFEST, CONFIG, RESULT, METRICS = "artifact.json", "config.json", "result.json", "metrics.jsonl"
WEIGHTS, CHECKPOINT, BEFORE = "model.safetensors", "checkpoint.pt", "checkpoint-before.pt"
SEEDS = "seeds.json"  # in a folder with the runs of several seeds
RUN_FOLDER = "a run folder of `cornn train`"
FIT_FOLDER = "a folder of `cornn fit`, or a file that an estimator's `save` wrote"


Kind = Literal["run", "estimator"]
"""The kind of a saved folder: written by `cornn train` or by `cornn fit`."""


@dataclass(frozen=True)
class Manifest:
    """The content of artifact.json."""

    kind: Kind
    format: int
    version: str
    files: dict[str, str] | None  # name -> SHA-256; None: written by version 0.1.0, without checksums


@dataclass(frozen=True)
class Artifact:
    """A saved folder."""

    path: Path

    @property
    def manifest(self) -> Manifest:
        """The manifest, which is read again each time."""
        return _read_manifest(self.path)

    def has(self, name: str) -> bool:
        """Return whether a file is there and complete, which means that the manifest, if there is one, lists it."""
        files = self.manifest.files
        return (self.path / name).is_file() and (files is None or name in files)

    def read(self, name: str) -> bytes:
        """Read a file of the folder and verify its checksum."""
        files, path = self.manifest.files, self.path / name
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: {self._remedy(name)}")
        content = read_bytes(path)
        if files is not None and name not in files:
            raise DamagedFileError(f"{path} is not listed in {MANIFEST}: {self._remedy(name)}")
        if files is not None and compute_checksum(content) != files[name]:
            raise DamagedFileError(
                f"{path} is damaged: it does not match its checksum in {MANIFEST}: {self._remedy(name)}"
            )
        return content

    @property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return parse_json(self.read(CONFIG), self.path / CONFIG)

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None if the run has not finished."""
        return parse_json(self.read(RESULT), self.path / RESULT) if self.has(RESULT) else None

    def _remedy(self, name: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class RunArtifact(Artifact):
    """A folder of `cornn train`."""

    @property
    def complete(self) -> bool:
        """Whether the result and its weights exist."""
        return self.has(RESULT) and (self.path / WEIGHTS).is_file()

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, which are checked by `check_row`."""
        path = self.path / METRICS
        if not path.exists():
            return []
        rows = parse_json_lines(self.read(METRICS) if self.complete and self.has(METRICS) else read_bytes(path), path)
        for number, row in enumerate(rows, 1):
            check_row(row, path, number)
        return rows

    def checkpoint(self, before: bool = False) -> dict[str, Any] | None:
        """Return the last checkpoint, if any; with `before` the previous one. Both are verified.

        A checkpoint names the length and the checksum of the metrics that were there when it was written.
        """
        name = BEFORE if before else CHECKPOINT
        path = self.path / name
        if not path.exists():
            return None
        remedy = self._remedy(name)
        content = unseal_zip(read_bytes(path), path, remedy, warn=self.manifest.files is not None)
        try:
            checkpoint = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        except (RuntimeError, EOFError, OSError, LookupError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise DamagedFileError(f"{path} is damaged: {remedy}") from error
        if not isinstance(checkpoint, dict):
            raise DamagedFileError(f"{path} is not a checkpoint: {remedy}")
        convert(int, checkpoint.get("step"), f"{path}: step")
        metrics = checkpoint.pop("metrics", None)
        if metrics is not None:
            with naming(path):
                size, checksum = convert(int, metrics["bytes"], "bytes"), convert(str, metrics["sha256"], "sha256")
            self._verify_metrics(path, size, checksum)
        return checkpoint

    def checkpoint_error(self, problem: str) -> DamagedFileError:
        """Return the error that the last checkpoint has a problem, with what can still be used."""
        return DamagedFileError(f"{self.path / CHECKPOINT} {problem}: {self._remedy(CHECKPOINT)}")

    def _verify_metrics(self, checkpoint: Path, size: int, checksum: str) -> None:
        path = self.path / METRICS
        content = read_bytes(path)[:size] if path.exists() else b""
        if len(content) != size or compute_checksum(content) != checksum:
            raise DamagedFileError(
                f"{path} is damaged: it lacks rows that were there when {checkpoint.name} was written: "
                f"{self._remedy(checkpoint.name)}"
            )

    def weights(self) -> dict[str, Tensor]:
        """Return the trained weights, which are verified."""
        return self._read_weights()[0]

    def load_weights(self, model: SequenceModel) -> None:
        """Copy the trained weights to a model of the same shape; an error names their file."""
        weights = self.weights()
        with naming(self.path / WEIGHTS):
            model.load_state_dict(weights)

    def model(self) -> SequenceModel:
        """Return the trained model on the CPU, in evaluation mode. It needs neither the task nor its data."""
        weights, spec = self._read_weights()
        if spec is None:
            spec = describe_first_format(self.config, weights, self.path / CONFIG)
        return spec.build(weights, self.path / WEIGHTS)

    def _read_weights(self) -> tuple[dict[str, Tensor], ModelSpec | None]:
        path = self.path / WEIGHTS
        if not path.exists():
            raise FileNotFoundError(f"{self.path} has no {WEIGHTS}: its training has not finished")
        content = self.read(WEIGHTS) if self.has(WEIGHTS) else read_bytes(path)
        return unpack_model(content, path, self._remedy(WEIGHTS), warn=self.manifest.files is not None)

    def _remedy(self, name: str) -> str:
        if name == CHECKPOINT and (self.path / BEFORE).exists():
            return f"the previous checkpoint is kept: `mv {self.path / BEFORE} {self.path / CHECKPOINT}`, then resume"
        if name in (CHECKPOINT, BEFORE):
            return f"remove {CHECKPOINT} and {BEFORE} to train from the start"
        if name == CONFIG:
            return f"if you edited it, remove {MANIFEST}; if not, only {WEIGHTS} can still be used"
        if name == METRICS:
            return "the other files can still be used, only the curve is lost"
        if (self.path / CHECKPOINT).exists():
            return (
                f"the last checkpoint can still be used: remove {RESULT} and {WEIGHTS}, then run "
                f"`cornn resume {self.path}`"
            )
        return "train again"


@dataclass(frozen=True)
class EstimatorArtifact(Artifact):
    """A folder of `cornn fit`, or the file that an estimator's `save` wrote."""

    @property
    def is_file(self) -> bool:
        """Whether it is a single file."""
        return self.path.is_file()

    def estimator(self) -> Any:
        """Return the fitted estimator. Its file carries its own checksum."""
        from cornn import estimators

        if self.is_file:
            return estimators.load(self.path)
        self.read(WEIGHTS)
        return estimators.load(self.path / WEIGHTS)

    def _remedy(self, name: str) -> str:
        if name == WEIGHTS:
            return "fit the model again"
        return f"{self.path / WEIGHTS} can still be used on its own: `cornn.estimators.load`, or fit the model again"


def check_row(row: Any, path: Path, number: int) -> int:
    """Check the types in a row of metrics.jsonl, line `number` of `path`, and return its step."""
    where = f"{path}, line {number}"
    if not isinstance(row, dict):
        raise ValueError(f"{where} is not a JSON object")
    for name in ("metric", *(optional for optional in ("loss", "seconds", "epoch") if optional in row)):
        if type(row.get(name)) not in (int, float):  # NaN is a number too
            raise ValueError(f"{where}: {name} must be a number, got {row.get(name)!r}")
    return convert(int, row.get("step"), f"{where}: step")


def load(path: Path | str) -> RunArtifact | EstimatorArtifact:
    """Open a saved folder, or the file of an estimator. Its files are read, and verified, when they are used.

    Args:
        path: A folder of `cornn train` or `cornn fit`, or a file that an estimator's `save` wrote.

    Returns:
        A `RunArtifact` or an `EstimatorArtifact`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If its manifest is damaged or of a later version.

    Examples:
        >>> load("runs/adding-0001").model()
    """
    return _open(Path(path), f"{RUN_FOLDER}, {FIT_FOLDER}")


def _open(path: Path, expected: str) -> RunArtifact | EstimatorArtifact:
    if path.is_file():
        return EstimatorArtifact(path)
    if (path / SEEDS).exists():
        first = next(iter(sorted(path.glob("seed-*"))), path / "seed-0")
        raise FileNotFoundError(f"{path} contains the runs of several seeds: choose one of them, such as {first}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: pass {expected}")
    if not (path / MANIFEST).exists() and not (path / CONFIG).exists():
        raise FileNotFoundError(f"{path} is not a saved folder: it has no {CONFIG}; pass {expected}")
    manifest = _read_manifest(path)
    if manifest.files is None:
        warn_unchecked(path)
    return (RunArtifact if manifest.kind == "run" else EstimatorArtifact)(path)


def is_saved(path: Path) -> bool:
    """Return whether a folder is a saved one, or the folder of several seeds."""
    return any((path / name).exists() for name in (MANIFEST, CONFIG, SEEDS))


def find_runs(path: Path) -> list[Path]:
    """Return the run folders of several seeds, or the folder itself if it is one run."""
    return sorted(path.glob("seed-*")) if (path / SEEDS).exists() else [path]


def load_run(path: Path | str) -> RunArtifact:
    """Open a folder of `cornn train`, as `load` does; an estimator is an error."""
    artifact = _open(Path(path), RUN_FOLDER)
    if not isinstance(artifact, RunArtifact):
        if artifact.is_file:
            raise ValueError(f"{path} is a file, this command needs a run folder of `cornn train`")
        page = artifact.path / "report.html"
        what = f"its page is {page}" if page.exists() else "use `cornn predict`"
        raise ValueError(f"{path} was written by `cornn fit`, this command needs a run of `cornn train`: {what}")
    return artifact


def load_estimator(path: Path | str) -> EstimatorArtifact:
    """Open a folder of `cornn fit` or the file of an estimator, as `load` does; a run is an error."""
    artifact = _open(Path(path), FIT_FOLDER)
    if not isinstance(artifact, EstimatorArtifact):
        raise ValueError(f"{path} was written by `cornn train`, not by `cornn fit`: test it with `cornn evaluate`")
    return artifact


def _read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    if not file.exists():
        config = parse_json(read_bytes(path / CONFIG), path / CONFIG) if (path / CONFIG).exists() else {}
        return Manifest("estimator" if config.get("kind") == "fit" else "run", 1, "0.1.0", None)
    remedy = "remove it to use the files without verifying them"
    content = unseal_json(read_bytes(file), file, remedy)
    with naming(file):
        manifest = decode(Manifest, content, "the manifest")
    if manifest.format > FORMAT:
        raise ValueError(
            f"{path} has format {manifest.format}, this version reads up to {FORMAT}: install a later cornn"
        )
    for name in manifest.files or {}:
        if Path(name).name != name:
            raise DamagedFileError(f"{file} lists {name!r}, which is not the name of a file in the folder: {remedy}")
    return manifest


def write_manifest(path: Path, kind: Kind, files: Mapping[str, str]) -> None:
    """Write artifact.json atomically. Call it last.

    Args:
        path: The folder.
        kind: What wrote it.
        files: Name -> SHA-256 of each file that is read back.
    """
    content = asdict(Manifest(kind, FORMAT, __version__, dict(sorted(files.items()))))
    write_atomically(path / MANIFEST, seal_json(content))


def write_folder(out: Path, kind: Kind, files: Mapping[str, bytes]) -> None:
    """Write a saved folder, completely or not at all.

    Args:
        out: The folder, which must not exist or be empty.
        kind: What writes it.
        files: Name -> content.
    """
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f"{TEMPORARY}{out.name}-p{os.getpid()}-"))
    try:
        for name, content in files.items():
            write_atomically(temporary / name, content)
        write_manifest(temporary, kind, {name: compute_checksum(content) for name, content in files.items()})
        temporary.chmod(0o755)
        os.rename(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
