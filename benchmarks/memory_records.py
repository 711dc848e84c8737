"""Measure why the recipe of docs/adding.md works, on the CPU, and write results/memory.json.

OMP_NUM_THREADS=1 python benchmarks/memory_records.py

step: eigenvalues of the covariance of tanh(V u + b), the force of one step, for marked and unmarked numbers, and the
    share of its variance orthogonal to the columns of V.
states: before training, with and without feedback: eigenvalues of the covariance of y after the last step, and the mean
    squared error of the best linear head, fitted and tested on different sequences.
gradients: before training, the size of dE/dX_k by lag, for losses that depend on one direction of the last y.
training: `theory.watch` during training with the paper's recipe and with ours, for the same number of steps.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from cornn import theory
from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn.lab import training
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.runs import open_run
from cornn.lab.tasks.adding import draw
from cornn.models import SequenceModel
from cornn.theory import measure

RESULT = Path(__file__).resolve().parents[1] / "results" / "memory.json"
LENGTHS, FEEDBACKS = (500, 2000, 5000, 20000), (0.0, 0.1, 0.3)
FITTED, TESTED, BATCH = 2400, 600, 100  # sequences
RIDGE = 1e-5
LAGS = (10, 100, 500, 1000)  # and from the first step to the last
TRAINED_LENGTH, TRAINED_STEPS, EVERY = 2000, 600, 50


def fresh(length: int, recipe: str = "ours") -> SequenceModel:
    config = resolve("adding", recipe, length=length, seed=0, device="cpu")
    return training.build(config, training.load(config))


@torch.no_grad()
def with_feedback(length: int, feedback: float) -> SequenceModel:
    """Return the start of our recipe, with W = -feedback V V^+."""
    model = fresh(length)
    V = model.layer.matrices().V
    model.layer.set_matrices(W=-feedback * V @ torch.linalg.pinv(V))
    return model


def eigenvalues(samples: Tensor) -> list[float]:
    """Return the three largest eigenvalues of the covariance of the rows."""
    return torch.linalg.eigvalsh(torch.cov(samples.double().T)).flip(0)[:3].tolist()


@torch.no_grad()
def one_step() -> dict:
    V, _, _, b = (matrix.double() for matrix in fresh(LENGTHS[0]).layer.matrices())
    along = torch.linalg.qr(V)[0]
    input = torch.rand(100_000, 2, generator=generator(0, "memory", "step"), dtype=torch.float64)
    networks = {}
    for mark, name in enumerate(("unmarked", "marked")):
        input[:, 1] = mark
        added = torch.tanh(input @ V.T + b)
        varying = added - added.mean(0)
        outside = varying - varying @ along @ along.T
        share = (outside.square().sum() / varying.square().sum()).item()
        networks[name] = {"eigenvalues": eigenvalues(added), "share_outside_V": share}
    return networks


@torch.no_grad()
def state(length: int, feedback: float) -> dict:
    model, random = with_feedback(length, feedback), generator(0, "memory", "states", length)
    ends, targets = [], []
    for _ in range((FITTED + TESTED) // BATCH):
        input, target, _ = draw(BATCH, length, random)
        ends.append(model.layer.last_state(input)[0][-1].double())
        targets.append(target.double())
    y, target = torch.cat(ends), torch.cat(targets)
    known, aim = y[:FITTED] - y[:FITTED].mean(0), target[:FITTED] - target[:FITTED].mean()
    gram = known.T @ known / FITTED + RIDGE * torch.eye(y.shape[1], dtype=torch.float64)
    head = torch.linalg.solve(gram, known.T @ aim / FITTED)
    answer = (y[FITTED:] - y[:FITTED].mean(0)) @ head + target[:FITTED].mean()
    floor = (answer - target[FITTED:]).square().mean().item()
    return {"length": length, "feedback": feedback, "eigenvalues": eigenvalues(y), "floor": floor}


def by_lag(model: SequenceModel, length: int, direction: Tensor) -> dict[str, float]:
    """Return |dE/dX_k| over that at the last step, by lag, where E has the gradient `direction` for the last y."""
    network = theory.network_from_layer(model.layer)
    input = draw(3, length, generator(0, "memory", "gradients", length)).input
    trajectory = measure.simulate(network, input)
    sizes = measure.gradient_by_lag(network, trajectory, trajectory.y[-1] - direction)["state"].mean(1)
    lags = [lag for lag in LAGS if lag < length - 1] + [length - 1]
    return {str(lag): (sizes[-1 - lag] / sizes[-1]).item() for lag in lags}


@torch.no_grad()
def gradients(length: int) -> list[dict]:
    paper = fresh(length, "paper")
    rows = [
        {"start": "paper", "asks": "the head's first", "sizes": by_lag(paper, length, paper.head.weight[0].double())}
    ]
    for feedback in FEEDBACKS[:2]:
        model = with_feedback(length, feedback)
        head = model.head.weight[0].double()
        along = torch.linalg.qr(model.layer.matrices().V.double())[0]
        projection = along @ (along.T @ head)
        directions = {
            "the head's first": head,
            "within the directions of V": projection,
            "orthogonal to V": head - projection,
        }
        for asks, direction in directions.items():
            rows.append({"start": feedback, "asks": asks, "sizes": by_lag(model, length, direction)})
    return [{"length": length} | row for row in rows]


def trained(recipe: str) -> dict:
    """Train one run, and watch it from before its first step."""
    config = resolve(
        "adding",
        recipe,
        length=TRAINED_LENGTH,
        seed=0,
        device="cpu",
        steps=TRAINED_STEPS,
        evaluate_every=EVERY,
        until=0.0,
    )
    config = replace(config, theory=True)
    input = draw(2, TRAINED_LENGTH, generator(0, "memory", "watched")).input
    first = theory.watch(fresh(TRAINED_LENGTH, recipe).layer, input)
    rows = [{"step": 0, "metric": None, "theory": first}]
    with tempfile.TemporaryDirectory() as folder:
        training.fit(config, Path(folder) / "run")
        rows += open_run(Path(folder) / "run").metrics()
    columns = ("gradient_quarter", "gradient_half", "gradient_first", "W_norm", "energy")
    return {
        "config": as_dictionary(config),
        "rows": [
            {"step": row["step"], "metric": row["metric"]} | {name: row["theory"][name] for name in columns}
            for row in rows
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    start = time.perf_counter()
    content = {
        "step": one_step(),
        "sequences": {"fitted": FITTED, "tested": TESTED},
        "gradients": gradients(500) + gradients(2000),
        "states": [],
        "training": {},
    }
    for row in content["gradients"]:
        print(row)
    for length in LENGTHS:
        for feedback in FEEDBACKS:
            content["states"].append(state(length, feedback))
            print(content["states"][-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    for recipe in ("ours", "paper"):
        content["training"][recipe] = trained(recipe)
        print(recipe, content["training"][recipe]["rows"][-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    content |= {"seconds": round(time.perf_counter() - start), **source(), "machine": machine()}
    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
