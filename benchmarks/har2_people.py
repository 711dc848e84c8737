"""Compare settings of HAR-2 by cross-validation over the people of its training half: three folds of seven.

    python benchmarks/har2_people.py
    python benchmarks/har2_people.py --ideas base "rotate 10" --seeds 1

The publisher's test split is never read. The record is results/har2-people.json; what it has is skipped.
"""

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from default_layer import describe_machine, to_text

from cornn._atomic import write_atomically
from cornn._random import generator
from cornn.lab.recipes import resolve
from cornn.lab.tasks import HAR2
from cornn.lab.training import Progress, validate

RECORD = Path(__file__).resolve().parents[1] / "results" / "har2-people.json"
FOLDS = 3
BASE: dict[str, Any] = {"schedule": "cosine", "clip": 1.0, "learning_rate": 0.006, "epochs": 12, "keep": "last"}
"""Changes of the paper's recipe that all ideas share."""
RINGING: dict[str, Any] = {"periods": (0.04, 1.0), "epsilon": 0.086, "init": "uncoupled", "recurrent_rate": 0.2}
HOLDING: dict[str, Any] = {"half_lives": (0.02, 1.0), "init": "uncoupled", "recurrent_rate": 0.2}
PERSON: dict[str, Any] = {"rotate": 10.0, "scale": 0.2, "stretch": 0.1}
COMPRESSED: dict[str, Any] = {"compress": 100.0, "rotate": 10.0}
FASTER: dict[str, Any] = COMPRESSED | {"gamma": 2.0, "epsilon": 1.0}
TOGETHER: dict[str, Any] = FASTER | PERSON | {"dt": 0.2, "compress": 300.0, "learning_rate": 0.01}
IDEAS: dict[str, dict[str, Any]] = {
    "base": {},
    "rotate 10": {"rotate": 10.0},
    "scale .2": {"scale": 0.2},
    "stretch .1": {"stretch": 0.1},
    "jitter .3": {"jitter": 0.3},
    "ringing": RINGING,
    "holding": HOLDING,
    "ringing, person": RINGING | PERSON,
    "rotate 20": {"rotate": 20.0},
    "compress 100, rotate 10": COMPRESSED,
    "compress 100, rotate 10, decay .1": COMPRESSED | {"weight_decay": 0.1},
    "compress 100, rotate 10, faster": FASTER,
    "faster, dt .2": FASTER | {"dt": 0.2},
    "faster, gamma 10": FASTER | {"gamma": 10.0},
    "faster, person": FASTER | PERSON,
    "faster, rate .017": FASTER | {"learning_rate": 0.017},
    "faster, compress 300": FASTER | {"compress": 300.0},
    "faster, epsilon .3": FASTER | {"epsilon": 0.3},
    "together": TOGETHER,
    "together, 24 epochs": TOGETHER | {"epochs": 24},
    "faster, person, compress 300": FASTER | PERSON | {"compress": 300.0},
}
"""Idea -> its changes of the base."""


@dataclass(frozen=True)
class Fold(HAR2):
    """HAR-2 with one of three disjoint groups of people held out for validation."""

    fold: int = 0

    def _split(self, subjects: np.ndarray, random: torch.Generator) -> tuple[np.ndarray, np.ndarray, str]:
        people = np.unique(subjects)
        people = people[torch.randperm(len(people), generator=generator(0, "har2", "folds")).numpy()]
        is_held = np.isin(subjects, people[self.fold :: FOLDS])
        return np.flatnonzero(~is_held), np.flatnonzero(is_held), f"validation on fold {self.fold}"


def validate_fold(changes: Mapping[str, Any], fold: int, seed: int) -> dict[str, Any]:
    """Train on two folds and return the accuracy on the third: the last one and the best of all epochs."""
    config = resolve("har2", "paper", **BASE).override(**changes, seed=seed, device="cpu")
    task = Fold(**vars(config.task), fold=fold).load(0)
    curve: list[float] = []

    def watch(progress: Progress) -> None:
        curve.extend(row["metric"] for _, row in progress.evaluations)

    outcome = validate(config, task, watch)
    best = max(curve, default=None)
    result = {"last": outcome.metric, "best": best, "steps": outcome.steps, "seconds": round(outcome.seconds, 1)}
    return result | ({} if outcome.failure is None else {"failure": outcome.failure})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ideas", nargs="+", choices=IDEAS, default=list(IDEAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    torch.set_num_threads(1)
    what = "HAR-2, 64 neurons: settings compared by three folds of seven people of the training half. No test data."
    record: dict[str, Any] = {"what": what, **describe_machine("cpu"), "rows": []}
    if options.out.exists():
        record = json.loads(options.out.read_text(encoding="utf8"))
    origin = {key: value for key, value in describe_machine("cpu").items() if value != record[key]}
    for seed, idea in itertools.product(options.seeds, options.ideas):
        settings = json.loads(json.dumps(BASE | IDEAS[idea]))
        for fold in range(FOLDS):
            key = {"idea": idea, "settings": settings, "fold": fold, "seed": seed}
            if any(row.items() >= key.items() for row in record["rows"]):
                continue
            row = key | validate_fold(IDEAS[idea], fold, seed) | origin  # rows of another commit say so
            record["rows"].append(row)
            write_atomically(options.out, to_text(record).encode())
        rows = [row for row in record["rows"] if (row["idea"], row["seed"]) == (idea, seed)]
        print(f"{idea:40} seed {seed}", *(f"{_mean(rows, name):6.2f}" for name in ("last", "best")), flush=True)
        print("   ", *(f"{row['last'] or math.nan:6.2f}" for row in rows), f"{rows[-1]['seconds']:.0f} s", flush=True)


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.fmean(row[name] or math.nan for row in rows)


if __name__ == "__main__":
    main()
