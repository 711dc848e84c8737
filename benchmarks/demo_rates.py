"""The learning rates of `cornn demo`: one grid for all three models, on seeds that the demo does not use by default.

A model's rate is the one with the lowest validation error after the demo's number of steps, averaged over the seeds.
The rivals are then also given five times as many steps, to see whether they need a larger budget or never solve it.

python benchmarks/demo_rates.py --device cuda --workers 8 --json results/demo-rates.json
"""

import argparse
import json
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch

from cornn._machine import machine
from cornn._source import source
from cornn.lab.experiments import demo

GRID = (0.003, 0.01, 0.02, 0.03, 0.05, 0.08)
SEEDS = (101, 102, 103, 104)
LONGER = 5  # times the demo's steps
LONGER_GRID = (0.003, 0.01, 0.03)
LONGER_SEEDS = (101,)


class Trial(NamedTuple):
    """One training."""

    model: str
    rate: float
    seed: int
    steps: int
    length: int


def attempt(trial: Trial, device: str) -> dict:
    """Train once. Returns the trial and what it reached."""
    torch.set_num_threads(1)
    config = demo.configure(trial.model, length=trial.length, steps=trial.steps, rate=trial.rate, seed=trial.seed)
    curve = demo.train(config, device=device)
    solved = curve.solved
    error = curve.last.error
    return {
        **trial._asdict(),
        "error": float(f"{error:.4g}") if math.isfinite(error) else None,
        "solved_after_steps": None if solved is None else solved.step,
    }


def choose(rows: Iterable[dict], model: str) -> float:
    """Return the rate with the lowest mean error of a model; a diverged training counts as infinite."""
    errors: dict[float, list[float]] = {}
    for row in rows:
        if row["model"] == model:
            errors.setdefault(row["rate"], []).append(math.inf if row["error"] is None else row["error"])
    return min(errors, key=lambda rate: sum(errors[rate]) / len(errors[rate]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--length", type=int, default=demo.LENGTH)
    options = parser.parse_args()
    longer = [
        Trial(model, rate, seed, LONGER * demo.STEPS, options.length)
        for model in ("gru", "lstm")
        for rate in LONGER_GRID
        for seed in LONGER_SEEDS
    ]
    grid = [
        Trial(model, rate, seed, demo.STEPS, options.length) for model in demo.RATES for rate in GRID for seed in SEEDS
    ]
    rows = []
    # The long trainings first, so that they do not delay the end.
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(attempt, trial, options.device) for trial in [*longer, *grid]]):
            rows.append(done.result())
            print(rows[-1], flush=True)
    rows.sort(key=lambda row: (row["steps"], row["model"], row["rate"], row["seed"]))
    short = [row for row in rows if row["steps"] == demo.STEPS]
    content = {
        "task": f"adding, {options.length} steps",
        "hidden_size": demo.HIDDEN_SIZE,
        "batch_size": demo.BATCH_SIZE,
        "goal": demo.GOAL,
        "chosen": {model: choose(short, model) for model in demo.RATES},
        "grid": short,
        "longer": [row for row in rows if row["steps"] != demo.STEPS],
        "device": options.device,
        "machine": machine(),
        **source(),
    }
    print(content["chosen"])
    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
