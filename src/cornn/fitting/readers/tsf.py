"""Read the `.tsf` files of the Monash forecasting archive: one series per line, for forecasts."""

from pathlib import Path

from cornn.estimators.series import ValidSeries
from cornn.fitting.readers.dataset import Dataset, Layout
from cornn.fitting.readers.rows import parse_cells, read_rows

__all__ = ["read_tsf"]


def read_tsf(path: Path) -> Dataset:
    """Read one series per line: attributes such as its name and its first time, then its values, evenly spaced."""
    header, rows = read_rows(path, "#")
    words = [line.split() for line in header]
    names = [own[1] for own in words if own[0].lower() == "@attribute" and len(own) > 1]
    sequences, ids = [], []
    for place, line in rows:
        *attributes, cells = line.split(":")
        if len(attributes) != len(names):
            raise ValueError(
                f"{path}, {place} has {len(attributes)} attributes, but there are {len(names)} @attribute lines: the "
                "line may be truncated"
            )
        sequences.append(ValidSeries(parse_cells(cells.split(","), f"{path}, {place}")[:, None]))
        ids.append(attributes[0] if attributes else len(sequences))
    places = [place for place, _ in rows]
    return Dataset(str(path), Layout(), ("value",), sequences, ids, names[0] if names else "row", None, places)
