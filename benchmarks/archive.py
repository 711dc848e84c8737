"""Compare the estimators' methods with ROCKETs on data sets of the UCR / UEA archive, on one CPU thread.

    python benchmarks/archive.py --json results/archive.json [--data GunPoint …] [--classifiers bank …]
                                 [--splits 0 1 …] [--seeds 0 1 2 …]

Needs the package aeon, which contains the data (and numpy up to 2.3, for numba). Split 0 is the published one; 1 to 10
are drawn from all sequences, with as many of each class for training. Nothing is chosen on a test split: all settings
are the defaults, for every data set. Rows that the file has already are not measured again.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from cornn._machine import machine
from cornn._source import source
from cornn.estimators import CoRNNClassifier

try:
    import aeon
    from aeon.classification.convolution_based import MiniRocketClassifier, MultiRocketClassifier
    from aeon.datasets import load_classification
except ImportError:
    raise SystemExit(
        "this comparison needs the package aeon: pip install aeon (in a separate environment, since it may ask for "
        "other versions of numpy and pandas than the rest)"
    ) from None

# All classification problems of the archive that aeon ships complete, from the shortest to the longest.
DATA = (
    "ItalyPowerDemand",
    "JapaneseVowels",
    "BasicMotions",
    "GunPoint",
    "ArrowHead",
    "PickupGestureWiimoteZ",
    "OSULeaf",
    "ACSF1",
)
UNEQUAL = ("JapaneseVowels", "PickupGestureWiimoteZ")
"""Of unequal lengths, which the ROCKETs do not take: they get the archive's version with all lengths made equal."""


def summarise(sequences: list[np.ndarray]) -> np.ndarray:
    """Simple statistics of each feature: level, spread, extremes, ends and the size of steps."""
    rows = []
    for values in sequences:
        steps = np.diff(values, axis=0, prepend=values[:1])
        parts = [
            values.mean(0),
            values.std(0),
            values.min(0),
            values.max(0),
            values[0],
            values[-1],
            np.sqrt((steps**2).mean(0)),
        ]
        rows.append(np.concatenate(parts))
    return np.stack(rows)


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "bank": lambda seed: CoRNNClassifier(random_state=seed, device="cpu"),
    "causal bank": lambda seed: CoRNNClassifier(causal=True, random_state=seed, device="cpu"),
    "MiniRocket": lambda seed: MiniRocketClassifier(random_state=seed, n_jobs=1),
    "MultiRocket": lambda seed: MultiRocketClassifier(random_state=seed, n_jobs=1),
    "network": lambda seed: CoRNNClassifier(method="network", random_state=seed, device="cpu"),
    "statistics": lambda seed: make_pipeline(
        FunctionTransformer(summarise), StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 10))
    ),
    "calibrated": lambda seed: CalibratedClassifierCV(CoRNNClassifier(random_state=seed, device="cpu"), cv=5),
}
"""Untrained oscillators, these with causal scalings, two ROCKETs, the trained coRNN, a ridge on simple statistics, and
scikit-learn's calibration of the first for its log loss."""
SEEDS = {"bank": (0, 1, 2)}
ROCKETS = ("MiniRocket", "MultiRocket")
WITH_CHANCES = ("bank", "calibrated")
CODE = source()
"""Of the code as it is imported; files may change while this runs."""


@functools.cache
def load(name: str, rocket: bool) -> tuple[Any, np.ndarray, int]:
    """Return all sequences, their labels, and how many belong to the published training split.

    aeon has (sequences, features, time); the estimators have time before features.
    """
    full = f"{name}_eq" if rocket and name in UNEQUAL else name
    parts = [load_classification(full, split=part) for part in ("train", "test")]
    X = [np.asarray(sequence, np.float64) for X, _ in parts for sequence in X]
    y = np.concatenate([np.asarray(y) for _, y in parts])
    return (np.stack(X) if rocket else [sequence.T for sequence in X]), y, len(parts[0][1])


def draw_split(y: np.ndarray, count: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows for training and for the test: the published ones, or others with as many of each class."""
    rows = np.arange(len(y))
    if split == 0:
        return rows[:count], rows[count:]
    random, training = np.random.default_rng([split, 17]), []
    for label in np.unique(y):
        training.append(random.permutation(rows[y == label])[: (y[:count] == label).sum()])
    training_rows = np.sort(np.concatenate(training))
    return training_rows, np.setdiff1d(rows, training_rows)


def measure(name: str, split: int, classifier: str, seed: int) -> dict[str, Any]:
    X, y, count = load(name, classifier in ROCKETS)
    training, test = draw_split(y, count, split)

    def select(rows: np.ndarray) -> Any:
        return X[rows] if isinstance(X, np.ndarray) else [X[row] for row in rows]

    model = CLASSIFIERS[classifier](seed)
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(select(training), y[training])
    times = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    more = {}
    if classifier in WITH_CHANCES:
        chances = model.predict_proba(select(test))
        predicted = model.classes_[chances.argmax(1)]
        true_chances = chances[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
        more["log_loss"] = float(-np.log(np.maximum(true_chances, 1e-15)).mean())
    else:
        predicted = np.asarray(model.predict(select(test)))
    return {
        "data": name,
        "split": split,
        "classifier": classifier,
        "seed": seed,
        "accuracy": float((predicted == y[test]).mean()),
        **{key: round(value, 3) for key, value in times.items()},
        **more,
        **CODE,
    }


@functools.cache
def about(name: str) -> dict[str, Any]:
    """Describe the data set, with the accuracy of always predicting the most frequent training class."""
    X, y, count = load(name, False)
    labels, counts = np.unique(y[:count], return_counts=True)
    lengths = [len(sequence) for sequence in X[:count]]
    return {
        "training": count,
        "test": len(X) - count,
        "steps": [min(lengths), max(lengths)],
        "features": X[0].shape[1],
        "classes": len(labels),
        "trivial": float((y[count:] == labels[counts.argmax()]).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--classifiers", nargs="+", choices=tuple(CLASSIFIERS), default=tuple(CLASSIFIERS))
    parser.add_argument("--splits", nargs="+", type=int, default=range(11))
    parser.add_argument("--seeds", nargs="+", type=int, help="default: 0, 1 and 2 for the bank, 0 for the others")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    if options.json and options.json.exists():
        rows = json.loads(options.json.read_text(encoding="utf8"))["rows"]
    # numba compiles on the first use, which should not be measured.
    for features, rocket in product((1, 2), [name for name in ROCKETS if name in options.classifiers]):
        noise = np.random.default_rng(0).normal(size=(8, features, 20))
        CLASSIFIERS[rocket](0).fit(noise, np.arange(8) % 2).predict(noise)
    runs = (
        (classifier, split, seed, name)
        for classifier, split, name in product(options.classifiers, options.splits, options.data)
        for seed in options.seeds or SEEDS.get(classifier, (0,))
    )
    for classifier, split, seed, name in runs:
        key = {"data": name, "split": split, "classifier": classifier, "seed": seed}
        if any(key.items() <= row.items() for row in rows):
            continue
        rows.append(measure(name, split, classifier, seed))
        row = rows[-1]
        print(f"{classifier} {split} {seed} {name}: {row['accuracy']:.4f}, {row['cpu_seconds']:.2f} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(record(rows), indent=1) + "\n", encoding="utf8")


def record(rows: list[dict[str, Any]]) -> dict[str, Any]:
    order = {name: number for number, name in enumerate((*DATA, *CLASSIFIERS))}
    rows = sorted(rows, key=lambda row: (order[row["data"]], row["split"], order[row["classifier"]], row["seed"]))
    return {
        "what": "accuracy on test splits and the time of the fit, all settings as they are by default",
        "machine": machine(),
        "aeon": aeon.__version__,
        "numpy": np.__version__,
        "data": {name: about(name) for name in DATA if any(row["data"] == name for row in rows)},
        "rows": rows,
    }


if __name__ == "__main__":
    main()
