"""Measure a training step of psMNIST with 128 neurons on a GPU: each kernel, and a whole epoch.

python benchmarks/step_device.py [--data FOLDER] [--json results/step-cuda.json]
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from cornn._fit_loop import fit_loop
from cornn._machine import machine
from cornn._source import source
from cornn._tf32 import no_tf32
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.training.batches import Feed
from cornn.lab.training.graph import CapturedStep
from cornn.lab.training.optimiser import build_optimiser
from cornn.lab.training.side_by_side import SideBySide
from cornn.lab.training.state import prepare

RECIPE = "paper-128"
WARM_UP, TIMED, PROFILED = 20, 200, 5  # steps
EPOCHS = 4


def step_times(data: str | None) -> dict:
    """Return the microseconds of a step in all, and of each of its kernels."""
    config = resolve("psmnist", RECIPE, device="cuda", data=data)
    fabric = training.connect(config)
    run = prepare(config, fabric)
    models, feed = SideBySide([run], fabric.device), Feed([run], fabric)
    optimiser, schedule = build_optimiser(models, fabric)
    captured = CapturedStep(models, feed)

    def steps(first: int, count: int) -> None:
        counts = (feed.counts(step) for step in range(first, first + count))
        fit_loop(models, counts, feed.losses, optimiser, schedule, first=first, take_step=captured)

    with no_tf32():
        feed.start(0)
        steps(1, WARM_UP)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        steps(1 + WARM_UP, TIMED)
        end.record()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            steps(1 + WARM_UP + TIMED, PROFILED)
            torch.cuda.synchronize()
    kernels: dict[str, list[float]] = defaultdict(list)
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(("aten::", "cuda")):
            kernels[event.name].append(event.time_range.elapsed_us())
    rows = [
        {"kernel": name[:80], "count": len(us) / PROFILED, "us": sum(us) / PROFILED} for name, us in kernels.items()
    ]
    rows.sort(key=lambda row: -row["us"])
    return {"steps_an_epoch": run.plan.epoch, "step_us": begin.elapsed_time(end) / TIMED * 1e3, "kernels": rows}


def epoch_seconds(data: str | None) -> list[float]:
    """Return the seconds of each epoch but the first, with its evaluation."""
    marks = []

    def watch(progress: training.Progress) -> None:
        if progress.evaluations:
            marks.append(time.perf_counter())

    changes = {"epochs": EPOCHS, "schedule": "constant", "drop_after": 0}
    config = resolve("psmnist", RECIPE, device="cuda", data=data, **changes)
    with tempfile.TemporaryDirectory() as folder:
        training.fit(config, Path(folder) / "run", watch)
    return [later - before for before, later in pairwise(marks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    content = {"task": "psmnist", "recipe": RECIPE, **step_times(options.data), "epochs": epoch_seconds(options.data)}
    for row in content["kernels"]:
        print(f"{row['us']:8.2f} us x{row['count']:4.1f}  {row['kernel']}")
    print(f"{content['step_us']:.1f} us a step; epochs of {', '.join(f'{span:.4f} s' for span in content['epochs'])}")
    if options.json:
        content |= {"machine": machine(), **source()}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
