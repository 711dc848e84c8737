"""Compare CoRNNClassifier with nn.LSTM, nn.GRU and a ROCKET on data sets of the UCR / UEA archive, on a CPU.

    python benchmarks/archive.py --json results/archive.json [--data GunPoint …] [--classifiers coRNN …]
                                 [--seeds 0 1 2] [--missing]

Needs the package aeon, which contains the data. Each data set has its own training and test split. Nothing is chosen on
the test split: all settings are the defaults, for every data set. PyTorch's two recurrent layers use the preprocessing,
training loop and settings of the estimators; only the layer differs. An existing record keeps its other rows, and the
file is written after each row.
"""

import argparse
import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn._tf32 import no_tf32
from cornn.estimators import CoRNNClassifier
from cornn.estimators.base import default_batch_size, split_rows
from cornn.estimators.classifier import draw_stratified
from cornn.estimators.network import Schedule, train
from cornn.estimators.sequences import Columns, read_sequences
from cornn.lab.runs import write_json
from cornn.models import SequenceModel, count_parameters

try:
    import aeon
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.datasets import load_classification
except ImportError:
    raise SystemExit(
        "this comparison needs the package aeon: pip install aeon (in an environment of its own, since it may ask for "
        "other versions of numpy and pandas than the rest)"
    ) from None

# All classification problems of the archive that aeon brings with it whole, from the shortest to the longest.
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

Fit = tuple[Callable[[Any], Any], dict[str, Any]]
"""Predict labels for test sequences; and what is to be recorded of the fit."""


def fit_cornn(X: list, y: np.ndarray, seed: int) -> Fit:
    fitted = CoRNNClassifier(random_state=seed, device="cpu").fit(X, y)
    return fitted.predict, {"epochs": fitted.n_iter_, "parameters": count_parameters(fitted.model_)}


def fit_torch(kind: type[nn.RNNBase]) -> Callable[[list, np.ndarray, int], Fit]:
    """One of PyTorch's layers in the place of coRNN, with the same scaling, schedule, clipping and size."""

    def fit(X: list, y: np.ndarray, seed: int) -> Fit:
        usual, columns = CoRNNClassifier(), Columns(None, None, None)
        sequences = read_sequences(X, columns)
        preparation = fit_preparation(sequences, longest=1.0)
        data = preparation(sequences)
        classes, target = np.unique(y, return_inverse=True)
        targets = torch.from_numpy(target)
        with torch.random.fork_rng(devices=[]):
            model = SequenceModel(kind(preparation.features, usual.hidden_size), len(classes))
        model.reset_parameters(generator(seed, "weights"))

        def loss(model: SequenceModel, batch: Any, rows: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(model(batch.input, ends(batch.lengths)), targets[rows])

        rows = split_rows(
            len(y), usual.validation_share, lambda count, random: draw_stratified(target, count, random), seed
        )
        schedule = Schedule(
            usual.epochs,
            default_batch_size(len(rows[0])),
            usual.learning_rate,
            usual.weight_decay,
            usual.patience,
            seed,
            lambda row: None,
        )
        with no_tf32():
            history = train(model, data, loss, rows, schedule)

        def predict(X: list) -> np.ndarray:
            own = preparation(read_sequences(X, columns))
            with torch.no_grad(), no_tf32():
                return classes[model(own.input, ends(own.lengths)).argmax(1).numpy()]

        return predict, {"epochs": len(history), "parameters": count_parameters(model)}

    return fit


def ends(lengths: torch.Tensor) -> torch.Tensor | None:
    """Where sequences end; None where they are alike: PyTorch's layers are slower on packed ones."""
    return None if (lengths == lengths[0]).all() else lengths


def fit_rocket(X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    fitted = MiniRocketClassifier(random_state=seed, n_jobs=1).fit(X, y)
    return fitted.predict, {}


CLASSIFIERS: dict[str, Callable[[Any, np.ndarray, int], Fit]] = {
    "coRNN": fit_cornn,
    "nn.LSTM": fit_torch(nn.LSTM),
    "nn.GRU": fit_torch(nn.GRU),
    "MiniRocket": fit_rocket,
}


def load(name: str, part: str, classifier: str) -> tuple[Any, np.ndarray]:
    """aeon has (sequences, features, time); the estimators have time before features."""
    equal = classifier == "MiniRocket" and name in UNEQUAL
    X, y = load_classification(f"{name}_eq" if equal else name, split=part)
    return (X if classifier == "MiniRocket" else [np.asarray(own).T for own in X]), np.asarray(y)


def measure(name: str, classifier: str, seed: int) -> dict[str, Any]:
    X, y = load(name, "train", classifier)
    wall, processor = time.perf_counter(), time.process_time()
    predict, more = CLASSIFIERS[classifier](X, y, seed)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    X, y = load(name, "test", classifier)
    return {
        "data": name,
        "classifier": classifier,
        "seed": seed,
        "accuracy": float((np.asarray(predict(X)) == y).mean()),
        **{key: round(value, 3) for key, value in spent.items()},
        **more,
        **source(),
    }


def about(name: str) -> dict[str, Any]:
    """Describe the data set, with the accuracy of always predicting the most frequent training class."""
    X, y = load(name, "train", "coRNN")
    test, truth = load(name, "test", "coRNN")
    labels, counts = np.unique(y, return_counts=True)
    lengths = [len(own) for own in X]
    return {
        "training": len(X),
        "test": len(test),
        "steps": [min(lengths), max(lengths)],
        "features": X[0].shape[1],
        "classes": len(labels),
        "trivial": float((truth == labels[counts.argmax()]).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--classifiers", nargs="+", choices=tuple(CLASSIFIERS), default=tuple(CLASSIFIERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--missing", action="store_true", help="measure only what the record does not have yet")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    if options.json and options.json.exists():
        rows = json.loads(options.json.read_text(encoding="utf8"))["rows"]
    # numba compiles on the first use, which is not to be measured.
    fit_rocket(np.random.default_rng(0).normal(size=(8, 2, 20)), np.arange(8) % 2, 0)
    fit_rocket(np.random.default_rng(0).normal(size=(8, 1, 20)), np.arange(8) % 2, 0)
    for seed, name, classifier in product(options.seeds, options.data, options.classifiers):
        there = any((row["data"], row["classifier"], row["seed"]) == (name, classifier, seed) for row in rows)
        if there and options.missing:
            continue
        row = measure(name, classifier, seed)
        rows = [own for own in rows if (own["data"], own["classifier"], own["seed"]) != (name, classifier, seed)]
        rows.append(row)
        print(f"{name} {classifier} {seed}: {row['accuracy']:.4f}, {row['cpu_seconds']:.1f} s", flush=True)
        if options.json:
            write_json(options.json, record(rows))


def record(rows: list[dict[str, Any]]) -> dict[str, Any]:
    order = {name: number for number, name in enumerate((*DATA, *CLASSIFIERS))}
    rows = sorted(rows, key=lambda row: (order[row["data"]], order[row["classifier"]], row["seed"]))
    names = dict.fromkeys(row["data"] for row in rows)
    return {
        "what": "accuracy on the archive's test parts and the time of the fit, all settings as they are by default",
        "machine": machine(),
        "aeon": aeon.__version__,
        "numpy": np.__version__,
        "configuration": {key: value for key, value in CoRNNClassifier().get_params().items() if value is not None},
        "data": {name: about(name) for name in names},
        "rows": rows,
    }


if __name__ == "__main__":
    main()
