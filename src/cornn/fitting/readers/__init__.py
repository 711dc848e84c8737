"""Read files into sequences: tables, arrays, and the formats of the archives. Nothing in a file is executed."""

from pathlib import Path

from cornn.fitting.readers.arff import read_arff
from cornn.fitting.readers.arrays import read_npy, read_npz
from cornn.fitting.readers.dataset import FORMS, Dataset, Layout
from cornn.fitting.readers.rows import read_text
from cornn.fitting.readers.shape import shape
from cornn.fitting.readers.table import read_csv, read_parquet
from cornn.fitting.readers.ts_format import read_ts
from cornn.fitting.readers.tsf import read_tsf
from cornn.fitting.readers.ucr import is_ucr, read_ucr

__all__ = ["ENDINGS", "FORMS", "Dataset", "Layout", "check_format", "names_its_target", "read"]

TABLES = {".csv": read_csv, ".tsv": read_csv, ".txt": read_csv, ".parquet": read_parquet, ".pq": read_parquet}
UCR = (".tsv", ".txt")  # files of the archive if they have no header
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
ENDINGS = (*TABLES, ".npz", ".npy", ".ts", ".tsf", ".arff")


def read(path: Path, layout: Layout = Layout(), *, require_target: bool = True) -> Dataset:  # noqa: B008
    """Read the sequences of a file; its ending selects the format.

    Args:
        path: The file.
        layout: Which columns or arrays contain what.
        require_target: Whether a file without the target of the layout raises an error.

    Returns:
        The data set.

    Examples:
        >>> read(Path("waves.csv"), Layout(target=("kind",)))
    """
    path = Path(path)
    ending = check_format(path)
    if ending == ".ts":
        return read_ts(path)
    if ending == ".tsf":
        return read_tsf(path)
    if ending == ".arff":
        return read_arff(path, layout)
    if ending == ".npz":
        return read_npz(path, layout, require_target=require_target)
    if ending == ".npy":
        return read_npy(path, layout)
    # A model of a table reads tables: their names may be numbers too.
    if ending in UCR and (require_target or layout.form is None) and is_ucr(text := read_text(path)):
        return read_ucr(path, text, layout if require_target else Layout())
    return shape(TABLES[ending](path, require_target), layout, require_target=require_target)


def check_format(path: Path) -> str:
    """Check that a file exists and has a known format, and return its ending."""
    ending = path.suffix.lower()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a data file: pass a file that ends with {', '.join(ENDINGS)}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check its path")
    if ending not in ENDINGS:
        remedy = "; save the sheet as CSV in UTF-8" if ending in SPREADSHEETS else ""
        known = f"supported endings are {', '.join(ENDINGS)}"
        raise ValueError(f"{path} ends with {ending or 'nothing'!r}: {known}{remedy}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: save it again")
    return ending


def names_its_target(path: Path) -> bool:
    """Return whether the format of a file defines the target, so that `target` may be omitted."""
    ending = check_format(path)
    return ending not in TABLES or (ending in UCR and is_ucr(read_text(path)))
