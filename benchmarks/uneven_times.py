"""Compare the default layer with nn.GRU and nn.LSTM on sequences whose steps have uneven times.

    python benchmarks/uneven_times.py --out results/uneven-times.json   # continues the record

Three tasks, on training and validation data only (MNIST and HAR are read from CORNN_DATA):

- har: windows of HAR-2, 48 of 128 samples at random places. Validation by people who are not in training.
- pixels: MNIST digits in reading order, 157 of 784 pixels at random places.
- period: a noisy sine with random phase, 100 samples at exponentially distributed distances; the target is the
  logarithm of its period, 4 to 64 mean distances, standardised.

`CoRNN` gets the distances as `timespans`, in units of the mean distance. The others get them as two features, the
distance and its logarithm, and so does "CoRNN, time as features". All have 64 units, Adam, 64 sequences per step, a
cosine schedule, gradients clipped at a norm of 1, and standardised values. `CoRNN` has the learning rate of its
documentation, 0.016. Those of the others are the best of 0.001, 0.004 and 0.016 per task, by validation of seed 0.
"""

import argparse
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from default_layer_tasks import read_har, read_mnist
from torch import Tensor, nn
from torch.nn import functional as F

from cornn import CoRNN
from cornn._atomic import write_atomically
from cornn.lab.bench.measure import record

BATCH, HIDDEN, STEPS = 64, 64, 1000
EVALUATIONS = 30  # batches of validation data
RATES = (0.001, 0.004, 0.016)
TUNING_SEED, SEEDS = 0, (3, 4, 5)
OURS, MODELS = "CoRNN", ("CoRNN", "CoRNN, time as features", "nn.GRU", "nn.LSTM")


class Batch(NamedTuple):
    values: Tensor  # (time, batch, features)
    gaps: Tensor  # (time, batch), distance from the sample before, in units of the mean distance
    target: Tensor


def select_places(length: int, count: int, random: torch.Generator) -> Tensor:
    """Draw which samples are seen, (count, batch), in increasing order."""
    return torch.rand(length, BATCH, generator=random).topk(count, 0).indices.sort(0).values


def compute_gaps(places: Tensor, length: int) -> Tensor:
    first = torch.zeros_like(places[:1])
    return torch.diff(places, dim=0, prepend=first).float() * (len(places) / length)


def draw_har(random: torch.Generator, training: bool) -> Batch:
    signals, target, count = read_har("cpu")
    index = torch.randint(0 if training else count, count if training else len(signals), (BATCH,), generator=random)
    places = select_places(128, 48, random)
    return Batch(signals[index, places], compute_gaps(places, 128), target[index].unsqueeze(-1))


@functools.cache
def read_standardised_mnist() -> tuple[Tensor, Tensor]:
    images, labels = read_mnist("cpu")
    return (images - images[:12_000].mean()) / images[:12_000].std(), labels


def draw_pixels(random: torch.Generator, training: bool) -> Batch:
    images, labels = read_standardised_mnist()
    index = torch.randint(0 if training else 12_000, 12_000 if training else len(images), (BATCH,), generator=random)
    places = select_places(784, 157, random)
    return Batch(images.flatten(1)[index, places].unsqueeze(-1), compute_gaps(places, 784), labels[index])


def draw_period(random: torch.Generator, training: bool) -> Batch:
    gaps = torch.empty(100, BATCH).exponential_(generator=random)
    scale, phase = torch.rand(BATCH, generator=random), 2 * math.pi * torch.rand(BATCH, generator=random)
    period = 4 * 16**scale
    values = torch.sin(2 * math.pi * gaps.cumsum(0) / period + phase)
    values = values + 0.3 * torch.randn(values.shape, generator=random)
    return Batch(values.unsqueeze(-1), gaps, (12**0.5 * (scale - 0.5)).unsqueeze(-1))


TASKS = {"har": (draw_har, 9, 1), "pixels": (draw_pixels, 1, 10), "period": (draw_period, 1, 1)}
"""Name -> function (random, training) that draws a batch, number of features, number of outputs."""


class Model(nn.Module):
    """A layer and a linear map of its last state."""

    def __init__(self, name: str, features: int, outputs: int) -> None:
        super().__init__()
        self.timed = name == OURS
        make = {"nn.GRU": nn.GRU, "nn.LSTM": nn.LSTM}.get(name, CoRNN)
        self.layer = make(features + (0 if self.timed else 2), HIDDEN)
        self.head = nn.Linear(HIDDEN, outputs)

    def forward(self, values: Tensor, gaps: Tensor) -> Tensor:
        if self.timed:
            output, _ = self.layer(values, timespans=gaps)
        else:
            output, _ = self.layer(torch.cat((values, gaps.unsqueeze(-1), gaps.log1p().unsqueeze(-1)), -1))
        return self.head(output[-1])


def compute_loss(task: str, output: Tensor, target: Tensor) -> Tensor:
    loss = {"har": F.binary_cross_entropy_with_logits, "pixels": F.cross_entropy, "period": F.mse_loss}[task]
    return loss(output, target)


def compute_score(task: str, output: Tensor, target: Tensor) -> Tensor:
    """Return the accuracy in percent, or the mean squared error."""
    if task == "period":
        return F.mse_loss(output, target)
    right = (output > 0).float() == target if task == "har" else output.argmax(-1) == target
    return 100 * right.float().mean()


def train(task: str, model: str, rate: float, seed: int) -> dict:
    """Train once and return the row of the record."""
    draw, features, outputs = TASKS[task]
    torch.manual_seed(seed)
    network, random = Model(model, features, outputs), torch.Generator().manual_seed(1000 + seed)
    optimiser = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        batch = draw(random, True)
        optimiser.zero_grad()
        compute_loss(task, network(batch.values, batch.gaps), batch.target).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    test_random, scores = torch.Generator().manual_seed(99), []
    with torch.no_grad():
        for _ in range(EVALUATIONS):
            batch = draw(test_random, False)
            scores.append(compute_score(task, network(batch.values, batch.gaps), batch.target))
    value = float(torch.stack(scores).mean())
    return {"task": task, "model": model, "rate": rate, "seed": seed, "value": round(value, 5)}


def choose_rate(task: str, model: str, rows: list[dict]) -> float:
    """Return the best learning rate of the trainings with the tuning seed."""
    tried = [row for row in rows if (row["task"], row["model"], row["seed"]) == (task, model, TUNING_SEED)]
    best = min if task == "period" else max
    return best(tried, key=lambda row: row["value"])["rate"]


def list_jobs(rows: list[dict]) -> Iterator[tuple[str, str, float, int]]:
    """List all trainings; `rows` has those that came before."""
    for task in TASKS:
        for model in MODELS:
            ours = model.startswith("CoRNN")
            if not ours:
                yield from ((task, model, rate, TUNING_SEED) for rate in RATES)
            rate = 0.016 if ours else choose_rate(task, model, rows)
            yield from ((task, model, rate, seed) for seed in SEEDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/uneven-times.json"))
    out = parser.parse_args().out
    rows = json.loads(out.read_text(encoding="utf8"))["rows"] if out.exists() else []
    finished = {(row["task"], row["model"], row["rate"], row["seed"]) for row in rows}
    for job in list_jobs(rows):
        if job not in finished:
            rows.append(train(*job))
            print(json.dumps(rows[-1]), flush=True)
            content = record(f"validation after {STEPS} training steps, {HIDDEN} units", rows)
            write_atomically(out, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
