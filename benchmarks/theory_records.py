"""Compute the numbers of docs/theory.md and write results/theory/starts.json and counterexamples.json.

python benchmarks/theory_records.py

starts: for every task of the paper, with its constants and initialisation, before training: the hypotheses, the bounds
    proven from the weights, and measurements on one random sequence of the task's length.
"""

import json
import math
import time
from pathlib import Path

import torch

from cornn import CoRNN, theory
from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn.lab.recipes import RECIPES
from cornn.theory import gradients, hypotheses, linear, measure, small_gain
from cornn.theory.register import REGISTER

RESULTS = Path(__file__).resolve().parents[1] / "results" / "theory"

STARTS = {  # name: (task, recipe, features, steps)
    "adding": ("adding", "paper", 2, 5000),
    "sMNIST-256": ("smnist", "paper", 1, 784),
    "sMNIST-128": ("smnist", "paper-128", 1, 784),
    "psMNIST-256": ("psmnist", "paper", 1, 784),
    "psMNIST-128": ("psmnist", "paper-128", 1, 784),
    "noise-padded CIFAR-10": ("noisy-cifar10", "paper", 96, 1000),
    "HAR-2": ("har2", "paper", 9, 128),
    "IMDB": ("imdb", "paper", 100, 300),
}


def start(task: str, recipe: str, features: int, steps: int) -> dict:
    spec = RECIPES[task][recipe].train.model
    layer = CoRNN(features, spec.hidden_size, dt=spec.dt, gamma=spec.gamma, epsilon=spec.epsilon, init=spec.init)
    layer.reset_parameters(generator(0, "theory", task, recipe))
    network = theory.network_from_layer(layer)
    input = torch.rand(steps, 1, features, generator=generator(0, "theory", "input", task))
    trajectory = measure.simulate(network, input)
    _, logs = measure.product_norms(network, trajectory, norm="euclid", every=steps)
    return {
        "task": task,
        "recipe": recipe,
        "steps": steps,
        "time": steps * spec.dt,
        "assumption": hypotheses.assumption(network)[0] / spec.dt**0.5,
        "constant": hypotheses.smallest_constant(network, 0.5),
        "share_of_limit": spec.dt / linear.stability_limit(spec.gamma, spec.epsilon).item(),
        "rate": small_gain.slowest_rate(network),
        "bound": small_gain.log_growth_bound(network, steps)[-1].item() / math.log(10),
        "energy_bound": steps * math.log1p(gradients.energy_growth(network)) / math.log(10),
        "strict_bound": steps * math.log(gradients.step_norm(network)) / math.log(10),
        "measured": logs[-1, 0].item() / math.log(10),
    }


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    about = {**source(), "machine": machine()}
    rows = {}
    for name, case in STARTS.items():
        began = time.perf_counter()
        rows[name] = start(*case)
        print(name, f"{time.perf_counter() - began:.0f} s", rows[name])
    (RESULTS / "starts.json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf8")
    rows_found = []
    for statement in REGISTER:
        for case in statement.counterexamples:
            example = case()
            row = {"name": case.__name__, "setting": example.setting, "needs_more": example.is_lower_bound}
            row |= {"label": statement.label, "claimed": example.claimed, "measured": example.measured}
            row |= {"reach": example.reach}
            rows_found.append(row)
    content = json.dumps({**about, "rows": rows_found}, indent=1) + "\n"
    (RESULTS / "counterexamples.json").write_text(content, encoding="utf8")


if __name__ == "__main__":
    main()
