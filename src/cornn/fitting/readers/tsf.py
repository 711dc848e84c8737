"""Read the `.tsf` files of the Monash forecasting archive: one series per line, for forecasts."""

from pathlib import Path

import numpy as np

from cornn.estimators.series import ValidSeries
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Dataset, Layout
from cornn.fitting.readers.table import read_text

__all__ = ["read_tsf"]


def read_tsf(path: Path) -> Dataset:
    """Read one series per line: attributes such as its name and its first time, then its values, evenly spaced."""
    names, started = [], False
    sequences, ids, places = [], [], []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        line = line.strip()
        if not line or line[0] == "#":
            continue
        if not started:
            words = line.split()
            if words[0].lower() == "@attribute" and len(words) >= 2:
                names.append(words[1])
            started = words[0].lower() == "@data"
            if words[0][0] != "@":
                raise ValueError(f"{path}, line {number}: no @data before the data: is it a .tsf file?")
            continue
        place = f"row {len(sequences) + 1} (line {number})"
        *attributes, cells = line.split(":")
        if len(attributes) != len(names):
            raise ValueError(
                f"{path}, {place} has {len(attributes)} attributes, but there are {len(names)} @attribute lines: the "
                "line may be truncated"
            )
        try:
            values = np.array([parse_number(cell) for cell in cells.split(",")])
        except ValueError:
            raise ValueError(f"{path}, {place} contains something that is not a number: correct it") from None
        if np.isnan(values).all() or np.isinf(values).any():
            raise ValueError(f"{path}, {place} has no or infinite values: correct or remove the line")
        sequences.append(ValidSeries(values[:, None]))
        ids.append(attributes[0] if attributes else len(sequences))
        places.append(place)
    if not sequences:
        raise ValueError(f"{path} has no series: expected header lines with @, then @data, then data")
    return Dataset(str(path), Layout(), ("value",), sequences, ids, names[0] if names else "row", None, places)
