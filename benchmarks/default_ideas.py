"""Try ideas for the default layer: `CoRNN(d, m)` with one or several changes, on the tasks of default_layer.py.

    python benchmarks/default_ideas.py --side 12 --seconds 200
    python benchmarks/default_ideas.py --ideas default "unit .3" --tasks adding200 --seeds 3 4 --steps 50

Training and validation data only. The record is results/default-layer-ideas.json; what it has is skipped.
"""

import argparse
import json
import math
from pathlib import Path

import default_layer
import torch
from default_layer import ROOT, Job, describe_machine, to_text, train_all
from default_layer_tasks import SIZES, unpack
from torch import Tensor, nn

from cornn import CoRNN, _scaling
from cornn._atomic import write_atomically
from cornn._machine import device_for

RECORD = "default-layer-ideas.json"
ADDING = ("adding200", "adding500")
OTHERS = ("pixels", "rows", "noise", "char", "har", "lorenz", "latch")
IDEAS: dict[str, dict[str, float]] = {
    "default": {},
    "beta2 .99": {"beta2": 0.99},
    "centred": {"centre": 1},  # by the mean of the training data, which the layer does not know
    "centred, beta2 .99": {"centre": 1, "beta2": 0.99},
    "centred data": {"data": 1},
    "centred data, beta2 .99": {"data": 1, "beta2": 0.99},
    "standardised data": {"data": 2},
    "standardised data, beta2 .99": {"data": 2, "beta2": 0.99},
    "gru": {"gru": 1},
    "gru, beta2 .99": {"gru": 1, "beta2": 0.99},
    "gru, centred data": {"gru": 1, "data": 1},
    "gru, standardised data": {"gru": 1, "data": 2},
    "unit .3": {"fast": 0.3, "slow": 0.3, "ringing": 0.3},
    "unit .1": {"fast": 0.1, "slow": 0.1, "ringing": 0.1},
    "slow unit .3": {"slow": 0.3, "ringing": 0.3},
    "slow unit .1": {"slow": 0.1, "ringing": 0.1},
    "slow unit .1, coupling .1": {"slow": 0.1, "ringing": 0.1, "coupling": 0.1},
    "coupling .1": {"coupling": 0.1},
    "feedback .3": {"feedback": 0.3},
    "feedback 1": {"feedback": 1},
    "feedback .3, unit .3": {"feedback": 0.3, "fast": 0.3, "slow": 0.3, "ringing": 0.3},
    "feedback .3, beta2 .99": {"feedback": 0.3, "beta2": 0.99},
    "feedback .3, slow unit .1, beta2 .99": {"feedback": 0.3, "slow": 0.1, "ringing": 0.1, "beta2": 0.99},
    "small input of slow neurons": {"input_slow": 0.1},
    "slow neurons read fast ones": {"input_slow": 0.1, "lift": 1.0},
    "slow neurons read fast ones, slow unit .3": {"input_slow": 0.1, "lift": 1.0, "slow": 0.3, "ringing": 0.3},
    "slow neurons read fast ones, beta2 .99": {"input_slow": 0.1, "lift": 1.0, "beta2": 0.99},
}
"""Idea -> its changes.

fast, slow, ringing: RMS of y of these neurons for white input of RMS 1 (1 by default). coupling: `_scaling.COUPLING`.
feedback: f in W = -f V V^+ among the slow neurons, which subtracts the accumulated input from the next one; without it
where there are too many features. centre: whether to call `centre_`. input_slow: factor on the initial V of slow
neurons. lift: size of the initial weights from fast to slow neurons. beta2: of Adam. data: 1 subtracts the mean of the
training data from every feature, 2 divides by its deviation too. gru: 1 for nn.GRU instead.
"""


def find_kinds(m: int) -> dict[str, slice]:
    """Return the places of the fast, slow and ringing neurons."""
    slow = math.ceil(m / 4)
    fast = min(m - slow, math.ceil(m / 2))
    return {"fast": slice(0, fast), "slow": slice(fast, fast + slow), "ringing": slice(fast + slow, m)}


@torch.no_grad()
def change_units(layer: CoRNN, changes: dict[str, float]) -> None:
    """Set the RMS of y; K and G, and so the time scales, stay."""
    cell, m = layer.cell(0), layer.hidden_size
    unit = torch.ones(m, dtype=torch.float64)
    for kind, place in find_kinds(m).items():
        unit[place] = changes.get(kind, 1.0)
    dt, gamma, epsilon = (value.double() for value in cell.oscillators())
    constants = _scaling.Oscillators(dt * unit.sqrt(), gamma / unit, epsilon / unit.sqrt())
    norms = _scaling.impulse_norms(constants, cell.damping)
    for name, value in constants._asdict().items():
        getattr(cell, name).copy_(value)
    coupling = changes.get("coupling", _scaling.COUPLING) * (_scaling.WIDTH / m) ** 0.5
    columns = (coupling / torch.cat((norms.white_y, norms.white_z))).expand(m, -1)
    scales = _scaling.WeightScales(torch.ones(m, 1), columns, (norms.white_y / norms.constant).clamp(max=1.0))
    for name, value in scales._asdict().items():
        getattr(cell, name).copy_(value)


def make_layer(changes: dict[str, float], task: str) -> CoRNN:
    features, m = SIZES[task].features, SIZES[task].hidden
    layer = CoRNN(features, m)
    kinds = find_kinds(m)
    slow, fast = kinds["slow"], kinds["fast"]
    if {"fast", "slow", "ringing", "coupling"} & set(changes):
        change_units(layer, changes)
    V, W, _, _ = layer.matrices()
    V[slow] *= changes.get("input_slow", 1.0)
    if features <= (slow.stop - slow.start) // 4:
        W[slow, slow] -= changes.get("feedback", 0.0) * V[slow] @ torch.linalg.pinv(V[slow])
    random = torch.Generator().manual_seed(0)
    lift = (
        torch.randn(slow.stop - slow.start, fast.stop - fast.start, generator=random) / (fast.stop - fast.start) ** 0.5
    )
    W[slow, fast] += changes.get("lift", 0.0) / changes.get("fast", 1.0) * lift
    layer.set_matrices(V=V, W=W)
    if changes.get("centre"):
        mean = {"adding": torch.tensor([0.5, 2 / SIZES[task].length])}.get(task.rstrip("0123456789"))
        if mean is not None:
            layer.centre_(mean)
    return layer


class IdeaModel(default_layer.Model):
    """The model of default_layer.py with the layer of an idea, and its standardised input."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, job: Job):
        super().__init__(job)
        self.register_buffer("mean", torch.zeros(SIZES[job.task].features))
        self.register_buffer("deviation", torch.ones(SIZES[job.task].features))

    def make_layer(self, job: Job) -> nn.Module:
        sizes, changes = SIZES[job.task], IDEAS[job.model]
        return nn.GRU(sizes.features, sizes.hidden) if changes.get("gru") else make_layer(changes, job.task)

    def embed(self, x: Tensor) -> Tensor:
        return (super().embed(x) - self.mean) / self.deviation


class IdeaTraining(default_layer.Training):
    """The training of default_layer.py, with the mean and the deviation of the training data."""

    model: IdeaModel

    def __init__(self, job: Job, device: str):
        super().__init__(job, device)
        data = IDEAS[job.model].get("data", 0)
        if data:
            inputs = [self.model.embed(self.problem.make(row)[0]).detach() for row in self.problem.training[:10]]
            x = torch.cat(inputs, 1).flatten(0, 1)
            self.model.mean.copy_(x.mean(0))
            if data > 1:
                self.model.deviation.copy_(x.std(0).clamp(min=1e-6))


def list_jobs(ideas: list[str], tasks: list[str], seeds: list[int], steps: int | None) -> list[Job]:
    """List the trainings: adding first, with more seeds than the other tasks."""

    def job(task: str, idea: str, seed: int) -> Job:
        optimiser = "adam .99" if "beta2" in IDEAS[idea] else "adam"
        return Job(task, idea, SIZES[task].hidden, 0.016, seed, steps or SIZES[task].steps, optimiser)

    jobs = [job(task, idea, seed) for seed in seeds for task in ADDING for idea in ideas]
    jobs += [job(task, idea, seed) for seed in seeds[:2] for task in OTHERS for idea in ideas]
    jobs += [job("adding5000", idea, seed) for seed in seeds[:2] for idea in ideas]
    return [job for job in jobs if job.task in tasks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ideas", nargs="+", choices=IDEAS, default=list(IDEAS))
    parser.add_argument("--tasks", nargs="+", default=[*ADDING, *OTHERS, "adding5000"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4, 5, 6, 7, 8])
    parser.add_argument("--steps", type=int, help="training steps, to try the program")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / RECORD)
    parser.add_argument("--data", type=Path, help="read MNIST, HAR and text from this file")
    parser.add_argument("--side", type=int, default=1, help="trainings side by side on a GPU")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no training after this time")
    options = parser.parse_args()
    if options.data:
        unpack(options.data)
    device = device_for("auto")
    default_layer.Model = IdeaModel  # pyright: ignore[reportAttributeAccessIssue]
    default_layer.Training = IdeaTraining  # pyright: ignore[reportAttributeAccessIssue]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    what = "Ideas for the default layer; benchmarks/default_ideas.py describes them. Rate 0.016, validation data only."
    origin = describe_machine(device)
    record = {"what": what, **origin, "rows": []}
    if options.out.exists():
        record = json.loads(options.out.read_text(encoding="utf8"))
    record["ideas"] = IDEAS
    finished = {Job.from_row(row) for row in record["rows"]}
    jobs = [job for job in list_jobs(options.ideas, options.tasks, options.seeds, options.steps) if job not in finished]
    for _, row, seconds in train_all(jobs, device, options.side if device == "cuda" else 1, options.seconds):
        row |= {key: value for key, value in origin.items() if value != record.get(key)}  # rows of another run say so
        record["rows"].append(row)
        write_atomically(options.out, to_text(record).encode())
        print(json.dumps(row), f"{seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
