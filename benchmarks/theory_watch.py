"""Train with the paper's settings and record `cornn.theory.watch` during training.

python benchmarks/theory_watch.py har2 --steps 1000 --seeds 3 --every 25

Writes one record per run, results/theory/watch-TASK-seedN.json: settings, rows, and the share of time spent on
watching. Plain Adam, as in the paper; batches are drawn with replacement.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch

from cornn import theory
from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn.lab import training
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results" / "theory"


def run(name: str, recipe: str, options: dict, seed: int, steps: int, every: int, data: str | None) -> dict:
    config = resolve(name, recipe, seed=seed, data=data, **options)
    task = training.load(config)
    model = training.build(config, task)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.optimiser.learning_rate)
    random = generator(seed, "theory", "batches")
    rows, watching, seconds = [], 0.0, time.perf_counter()
    for step in range(steps + 1):
        index = torch.randint(task.training.size or 2**31, (config.budget.batch_size,), generator=random)
        batch = task.training.batch(index, random)
        loss = task.loss(model(batch.input, batch.lengths), batch.target)
        if step % every == 0:
            start = time.perf_counter()
            rows.append({"step": step, "loss": loss.item(), "theory": theory.watch(model.layer, batch.input)})
            watching += time.perf_counter() - start
        if not math.isfinite(loss.item()):
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - seconds
    trajectory = theory.measure.simulate(theory.network_from_layer(model.layer), batch.input[:, :1])
    exponents = theory.measure.lyapunov_exponents(theory.network_from_layer(model.layer), trajectory, 3)[0].tolist()
    return {
        "config": as_dictionary(config.override(data=None)),
        "rows": rows,
        "exponents": exponents,  # the largest, per step, at the final weights on one training sequence
        "seconds": round(seconds, 2),
        "share_of_watching": watching / seconds,
        "machine": machine(),
        **source(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--length", type=int, help="steps per sequence, for tasks with that option")
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--data")
    options = parser.parse_args()
    task_options = {"length": options.length} if options.length else {}
    RESULTS.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):
        record = run(options.task, options.recipe, task_options, seed, options.steps, options.every, options.data)
        path = RESULTS / f"watch-{options.task}-seed{seed}.json"
        path.write_text(json.dumps(record) + "\n", encoding="utf8")
        last = record["rows"][-1]
        print(path.name, f"loss {last['loss']:.4f}", f"{record['share_of_watching']:.1%} of {record['seconds']} s")


if __name__ == "__main__":
    main()
