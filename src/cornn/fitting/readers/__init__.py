"""Read files into sequences: CSV, Parquet, .npz and .ts. Nothing in a file is executed."""

from pathlib import Path

from cornn.fitting.readers.arrays import read_npz
from cornn.fitting.readers.dataset import FORMS, Dataset, Layout
from cornn.fitting.readers.shape import shape
from cornn.fitting.readers.table import read_csv, read_parquet
from cornn.fitting.readers.ts_format import read_ts

__all__ = ["ENDINGS", "FORMS", "Dataset", "Layout", "read"]

TABLES = {".csv": read_csv, ".tsv": read_csv, ".txt": read_csv, ".parquet": read_parquet, ".pq": read_parquet}
ENDINGS = (*TABLES, ".npz", ".ts")


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
    path, ending = Path(path), Path(path).suffix.lower()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a data file: pass a file that ends with {', '.join(ENDINGS)}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: pass a file that ends with {', '.join(ENDINGS)}")
    if ending not in ENDINGS:
        raise ValueError(f"{path} ends with {ending or 'nothing'!r}: supported endings are {', '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: save it again")
    if ending == ".ts":
        return read_ts(path)
    if ending == ".npz":
        return read_npz(path, layout, require_target=require_target)
    return shape(TABLES[ending](path), layout, require_target=require_target)
