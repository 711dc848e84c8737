"""Fit a linear readout to the last state of untrained networks on permuted MNIST.

    python benchmarks/untrained.py --json results/untrained.json [--seeds 3]

The readout is fitted by ridge regression on some training images, the ridge is chosen on others, and the accuracy is
that on the validation split. The test split is not read. The data are those of `cornn train psmnist`; it takes two
minutes of one core.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from cornn import theory
from cornn._machine import machine
from cornn._source import source
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.runs import write_json
from cornn.lab.tasks import PermutedMNIST, Task
from cornn.lab.tasks.task import Split
from cornn.layers import CoRNN

NAMES = ("paper-128", "memory", "ringing")
FITTED, CHOSEN = 6000, 2000
"""Number of training images to fit the readout, and to choose the ridge."""
RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)
AT_ONCE = 500


def states(layer: CoRNN, split: Split, count: int) -> Tensor:
    """Return y after the last pixel of the first `count` images of a split, (images, hidden)."""
    states_of_batches = []
    with torch.no_grad():
        for first in range(0, count, AT_ONCE):
            rows = {name: values[first : min(first + AT_ONCE, count)] for name, values in split.rows.items()}
            y, _ = layer.last_state(split.make(rows, split.shared, torch.Generator()).input)
            states_of_batches.append(y[-1])
    return torch.cat(states_of_batches).double()


def accuracy(features: Tensor, targets: Tensor, weights: Tensor) -> float:
    return 100 * ((features @ weights).argmax(1) == targets).double().mean().item()


def readout(layer: CoRNN, task: Task) -> float:
    """Return the accuracy of the best linear readout on the validation split in percent."""
    many = FITTED + CHOSEN
    targets = task.training.rows["target"][:many]
    features = states(layer, task.training, many)
    centre, scale = features[:FITTED].mean(0), features[:FITTED].std(0) + 1e-12

    def scaled(features: Tensor) -> Tensor:
        return torch.cat(((features - centre) / scale, torch.ones(len(features), 1, dtype=torch.float64)), 1)

    features = scaled(features)
    fitted, targets_one_hot = features[:FITTED], torch.nn.functional.one_hot(targets[:FITTED], 10).double()
    products, answers = fitted.t() @ fitted, fitted.t() @ targets_one_hot
    unit = torch.eye(len(products), dtype=torch.float64)
    solutions = [torch.linalg.solve(products + ridge * unit, answers) for ridge in RIDGES]
    best = max(solutions, key=lambda weights: accuracy(features[FITTED:], targets[FITTED:], weights))
    validation = task.validation
    return accuracy(scaled(states(layer, validation, validation.size)), validation.rows["target"], best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        task = PermutedMNIST().load(seed)
        for name in NAMES:
            layer = training.build(resolve("psmnist", name, seed=seed), task).layer
            assert isinstance(layer, CoRNN)
            held = theory.effective_rank(*layer.oscillators(), task.length)
            rows.append({"recipe": name, "seed": seed, "held": held, "accuracy": readout(layer, task)})
            print(rows[-1], flush=True)
    sizes = {"hidden_size": resolve("psmnist", NAMES[0]).model.hidden_size, "fitted": FITTED, "chosen": CHOSEN}
    about = {"measured": "accuracy of a linear readout of the last y on the validation split, network not trained"}
    write_json(options.json, {**about, **sizes, "machine": machine(), **source(), "rows": rows}, indent=1)


if __name__ == "__main__":
    main()
