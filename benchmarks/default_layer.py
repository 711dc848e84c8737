"""Compare `CoRNN(d, m)` with nn.GRU, nn.LSTM and the layer of version 0.1.0 on eleven tasks, at equal units.

    python benchmarks/default_layer.py                      # everything that results/default-layer.json lacks
    python benchmarks/default_layer.py --dry-run            # the list, and what is missing
    python benchmarks/default_layer.py --tasks adding200 rows --models default gru --seeds 3 --steps 20

Training and validation data only; MNIST, CIFAR-10, HAR and IMDB are read from CORNN_DATA (`cornn data get`).
default_layer_tasks.py makes the batches. On a GPU a training step is captured as a CUDA graph. Every training is saved
when it ends, and skipped the next time. With `--steps` the record is a file under runs/.

An earlier version of this program made the record of 2026-11-16, with the package at commit 91065a1. It differs:
- It ran 12 trainings side by side within 190 seconds, which cut off those under `missing`. This one runs one at a time.
- Its words of IMDB came from another tokenizer, from other reviews. Its rows of CIFAR-10 had the colours interleaved.
- Its trajectories of Lorenz-96 came from a Runge-Kutta method with a step of 0.01, standardised over both splits.
- HAR was rounded to half precision.
- It contained the prototype "issue", which the package does not: this program lists it and cannot run it.
The images, the text, the random numbers, the order of the batches and the initial weights are the same.
"""

# pyright: reportPrivateImportUsage=false
import argparse
import datetime
import gc
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from default_layer_tasks import TASKS, load, loss_of, score_of
from torch import Tensor, nn

from cornn import CoRNN, _scaling
from cornn._atomic import write_atomically
from cornn._machine import device_for
from cornn._source import source

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "default-layer.json"


# ---- The plan ----


RATES = {  # 0.016 elsewhere; chosen on seed 0, see results/default-layer-search.json
    "gru": {"pixels": 0.004, "rows": 0.004, "imdb": 0.004},
    "lstm": {"char": 0.004, "noise": 0.001, "cifar": 0.004, "har": 0.001},
    "today": {"pixels": 0.004},
}
MODELS = ("default", "default .2", "gru", "lstm", "today", "issue")
"""`CoRNN(d, m)`, the same with a coupling of 0.2, the rivals, the layer of version 0.1.0, and the first prototype."""
SEEDS = (3, 4, 5)
LSTM_FAILS = ("adding500", "noise", "cifar")  # at any rate: one seed is enough
EQUAL_PARAMETERS = ("pixels", "noise", "rows", "char", "cifar", "adding500", "har")
PROTOTYPE = ("adding200", "adding500", "pixels", "noise", "char")


class Job(NamedTuple):
    task: str
    model: str
    hidden_size: int
    rate: float
    seed: int
    steps: int


def neurons_of_gru(task: str) -> int:
    """Return the number of neurons, a multiple of 4, with which `CoRNN` has about as many parameters as the GRU."""
    d, m = TASKS[task].features, TASKS[task].hidden
    hidden = m
    while 2 * hidden * hidden + hidden * d + hidden < 3 * m * m + 3 * m * d + 6 * m:
        hidden += 1
    return hidden - hidden % 4


def plan(steps: int | None = None) -> list[Job]:
    """List all trainings of the comparison, with their own numbers of steps or `steps`."""

    def job(task: str, model: str, seed: int, hidden: int | None = None) -> Job:
        rate = RATES.get(model, {}).get(task, 0.016)
        return Job(task, model, hidden or TASKS[task].hidden, rate, seed, steps or TASKS[task].steps)

    jobs = []
    for seed in SEEDS:
        jobs += [job(task, "gru", seed) for task in TASKS]
        jobs += [job(task, model, seed) for task in TASKS for model in ("default", "default .2")]
        jobs += [job(task, "lstm", seed) for task in TASKS if seed == SEEDS[0] or task not in LSTM_FAILS]
        jobs += [job(task, "today", seed) for task in TASKS]
    jobs += [job(task, "default", seed, neurons_of_gru(task)) for seed in SEEDS for task in EQUAL_PARAMETERS]
    return jobs + [job(task, "issue", seed) for seed in SEEDS for task in PROTOTYPE]


def missing(record: dict, jobs: list[Job]) -> list[Job]:
    """Return the jobs that a record has no row of."""
    done = {tuple(row[key] for key in Job._fields) for row in record["rows"]}
    return [job for job in jobs if job not in done]


# ---- Model and training ----


class Gather(torch.autograd.Function):
    """Look up rows of an embedding; the gradient is added atomically, which a CUDA graph can capture."""

    @staticmethod
    def forward(ctx, weight: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = weight.shape
        return weight[index]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (index,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.shape).index_add_(0, index.flatten(), gradient.flatten(0, -2)), None


class Model(nn.Module):
    """An embedding for words and characters, one layer, and a head that reads every step or the last."""

    def __init__(self, job: Job):
        super().__init__()
        sizes = TASKS[job.task]
        words = {"char": 128, "imdb": 8000}.get(job.task)
        self.every = job.task in ("char", "lorenz", "latch")
        self.embedding = None if words is None else nn.Embedding(words, sizes.features)
        self.layer = make_layer(job.model, sizes.features, job.hidden_size)
        self.head = nn.Linear(job.hidden_size, sizes.outputs)

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = Gather.apply(self.embedding.weight, x)  # pyright: ignore[reportAssignmentType]
        if self.every:
            return self.head(self.layer(x)[0])
        if isinstance(self.layer, CoRNN):
            return self.head(self.layer.last_state(x)[0][-1])
        state = self.layer(x)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])


def make_layer(model: str, features: int, hidden: int) -> nn.Module:
    if model in ("gru", "lstm"):
        return {"gru": nn.GRU, "lstm": nn.LSTM}[model](features, hidden)
    if model == "today":
        return CoRNN(features, hidden, init="paper")
    before = _scaling.COUPLING
    _scaling.COUPLING = 0.2 if model == "default .2" else before
    try:
        return CoRNN(features, hidden)
    finally:
        _scaling.COUPLING = before


class Training:
    """Adam with a cosine schedule. A step has no argument and reads no value back, so that a graph can replay it."""

    def __init__(self, job: Job, device: str):
        self.job, self.problem = job, load(job.task, job.seed, job.steps, device)
        torch.manual_seed(job.seed)
        self.model = Model(job).to(device)
        self.weights: list[Tensor] = list(self.model.parameters())
        self.first = [torch.zeros_like(weight) for weight in self.weights]
        self.second = [torch.zeros_like(weight) for weight in self.weights]
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(job.steps, device=device)

    def step(self) -> None:
        x, target = self.problem.make(self.problem.training.index_select(0, self.number).squeeze(0))
        loss = loss_of(self.job.task, self.model(x), target)
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            norm = torch.stack(torch._foreach_norm(gradients)).norm()
            gradients = torch._foreach_mul(gradients, (1 / (norm + 1e-6)).clamp(max=1.0))
            before = self.number.float().squeeze()
            rate = 0.5 * self.job.rate * (1 + torch.cos(math.pi * before / self.job.steps))
            torch._foreach_lerp_(self.first, gradients, 0.1)
            torch._foreach_mul_(self.second, 0.999)
            torch._foreach_addcmul_(self.second, gradients, gradients, 0.001)
            root = torch._foreach_sqrt(self.second)
            torch._foreach_div_(root, torch.sqrt(1 - 0.999 ** (before + 1)))
            torch._foreach_add_(root, 1e-8)
            change = torch._foreach_div(self.first, root)
            torch._foreach_mul_(change, rate / (1 - 0.9 ** (before + 1)))
            torch._foreach_sub_(self.weights, change)
            self.losses.index_copy_(0, self.number, loss.detach().reshape(1))
            self.number += 1

    def capture(self) -> torch.cuda.CUDAGraph:
        """Capture a step after two rehearsals, and undo them."""
        kept = [weight.detach().clone() for weight in self.weights]
        for _ in range(2):
            self.step()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            self.step()
        finally:
            graph.capture_end()
        with torch.no_grad():
            for weight, value in zip(self.weights, kept, strict=True):
                weight.copy_(value)
            for x in (*self.first, *self.second, self.number, self.losses):
                x.zero_()
        return graph

    def run(self) -> dict:
        """Train, evaluate, and return the row of the record."""
        step = self.capture().replay if self.losses.is_cuda else self.step
        for _ in range(self.job.steps):
            step()
        with torch.no_grad():
            batches = map(self.problem.make, self.problem.validation)
            scores = [score_of(self.job.task, self.model(x), target) for x, target in batches]
        value = float(torch.stack(scores).mean())
        solved = solved_after(self.losses.tolist()) if self.job.task.startswith("adding") else None
        return self.job._asdict() | {"value": round(value, 5) if math.isfinite(value) else None, "solved_after": solved}


def solved_after(losses: list[float]) -> int | None:
    """Return the first step at which the running mean of the MSE is below 0.01."""
    mean = 1.0
    for number, loss in enumerate(losses):
        mean = 0.95 * mean + 0.05 * loss
        if mean < 0.01:
            return number
    return None


# ---- The record ----


def new_record(device: str) -> dict:
    """Return a record without rows, with the texts of the published one."""
    old = json.loads(RECORD.read_text(encoding="utf8"))
    gpu = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    here = {**source(), "machine": gpu, "torch": torch.__version__, "date": today, "missing": [], "rows": []}
    return old | here


def to_text(record: dict) -> str:
    """Write one training per line."""

    def lines() -> Iterator[str]:
        for key, value in record.items():
            if key in ("missing", "rows") and value:
                rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value)
                yield f' "{key}": [\n{rows}\n ]'
            else:
                yield json.dumps({key: value}, indent=1, ensure_ascii=False)[2:-2]

    return "{\n" + ",\n".join(lines()) + "\n}\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--steps", type=int, help="training steps, to try the program")
    parser.add_argument("--record", type=Path, help="results/default-layer.json, or a file under runs/ with --steps")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dry-run", action="store_true", help="print the list of trainings and stop")
    options = parser.parse_args(arguments)
    device = device_for(options.device)
    path = options.record or (Path(f"runs/default-layer-{options.steps}-steps.json") if options.steps else RECORD)
    record = json.loads(path.read_text(encoding="utf8")) if path.exists() else new_record(device)
    jobs = plan(options.steps)
    chosen = [
        job for job in jobs if job.task in options.tasks and job.model in options.models and job.seed in options.seeds
    ]
    left = missing(record, chosen)
    if options.dry_run:
        for job in chosen:
            state = "done" if job not in left else "missing" if job.model != "issue" else "missing, not in the package"
            print(" ".join(f"{key}={value}" for key, value in job._asdict().items()), f"- {state}")
        print(f"{len(chosen)} trainings, {len(left)} missing in {path}")
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = torch.cuda.Stream() if device == "cuda" else None  # the default stream cannot be captured
    ran = new_record(device)
    made = {key: ran[key] for key in ("commit", "machine", "torch", "date")}
    for job in (job for job in left if job.model != "issue"):
        gc.collect()
        gc.disable()  # nothing may be freed during a capture
        began = time.perf_counter()
        with torch.cuda.stream(stream):
            row = Training(job, device).run()
        gc.enable()
        row |= {key: value for key, value in made.items() if value != record[key]}  # rows of another run say so
        record["rows"].append(row)
        record["missing"] = [
            {key: getattr(job, key) for key in ("task", "model", "hidden_size", "seed")}
            for job in missing(record, jobs)
        ]
        write_atomically(path, to_text(record).encode())
        print(json.dumps(row), f"{time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
