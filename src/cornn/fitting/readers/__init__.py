"""Files that people bring, read into sequences. Nothing that a file holds is ever executed."""

from pathlib import Path

from cornn.fitting.readers.arrays import read_npz
from cornn.fitting.readers.dataset import FORMS, Dataset, Layout
from cornn.fitting.readers.shape import shape
from cornn.fitting.readers.table import read_csv, read_parquet
from cornn.fitting.readers.ts_format import read_ts

__all__ = ["ENDINGS", "FORMS", "Dataset", "Layout", "read"]

TABLES = {".csv": read_csv, ".tsv": read_csv, ".txt": read_csv, ".parquet": read_parquet, ".pq": read_parquet}
ENDINGS = (*TABLES, ".npz", ".ts")


def read(path: Path, layout: Layout = Layout(), *, target_wanted: bool = True) -> Dataset:  # noqa: B008
    """The sequences of a file, by its ending.

    target_wanted: whether a file without the target that the layout names is refused.
    """
    path, ending = Path(path), Path(path).suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: name a file that ends with {', '.join(ENDINGS)}")
    if ending not in ENDINGS:
        raise ValueError(f"{path} ends with {ending or 'nothing'!r}: known are {', '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: write it anew")
    if ending == ".ts":
        return read_ts(path)
    if ending == ".npz":
        return read_npz(path, layout, target_wanted=target_wanted)
    return shape(TABLES[ending](path), layout, target_wanted=target_wanted)
