"""Simple predictors of Lorenz-96, for comparison with the networks: no change, and affine maps of the last states.

python benchmarks/lorenz_baselines.py --json results/lorenz96-baselines.json

The maps are fitted by least squares on the training split and tested on the test split, with the trajectories in double
precision and rounded to single precision, which is what the networks see.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from cornn._machine import machine
from cornn._source import source
from cornn.lab.data import find_folder
from cornn.lab.tasks.lorenz96 import AHEAD, paths

FORCES = (0.9, 8.0)
STATES = (1, 5, 25)
"""Number of states that a map sees: the current one and those before it, one point apart."""


def windows(path: np.ndarray, states: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs of a map with a constant, (cases, 5 states + 1), and the targets, (cases, 5)."""
    last = path.shape[1] - AHEAD
    columns = [path[:, states - 1 - lag : last - lag] for lag in range(states)]
    inputs = np.concatenate(columns, axis=2).reshape(-1, 5 * states)
    return np.column_stack((inputs, np.ones(len(inputs)))), path[:, AHEAD + states - 1 :].reshape(-1, 5)


def nrmse(prediction: np.ndarray, target: np.ndarray) -> float:
    return float(np.sqrt(((prediction - target) ** 2).mean() / (target**2).mean()))


def measure(force: float, kind: type[np.floating]) -> list[dict]:
    """Fit and test every map at one force, with the trajectories rounded to `kind`."""
    parts = {name: path.astype(kind).astype(np.float64) for name, path in paths(force, find_folder()).items()}
    about = {"force": force, "precision": np.dtype(kind).name}
    inputs, target = windows(parts["test"], 1)
    rows = [{**about, "map": "no change", "states": 1, "test": nrmse(inputs[:, :5], target)}]
    for states in STATES:
        weights, _, rank, _ = np.linalg.lstsq(*windows(parts["training"], states), rcond=None)
        inputs, target = windows(parts["test"], states)
        error = nrmse(inputs @ weights, target)
        row = {**about, "map": "affine", "states": states, "test": error, "rank": int(rank), "parameters": weights.size}
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for force in FORCES for kind in (np.float64, np.float32) for row in measure(force, kind)]
    for row in rows:
        print(row)
    content = {"rows": rows, "machine": machine(), **source()}
    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
