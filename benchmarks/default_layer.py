"""Compare `CoRNN(d, m)` with nn.GRU, nn.LSTM and the layer of version 0.1.0 on eleven tasks, and with its own variants.

    python benchmarks/default_layer.py                      # everything that the records lack
    python benchmarks/default_layer.py --dry-run            # the list, and what is missing
    python benchmarks/default_layer.py --tasks adding200 rows --models default gru --seeds 3 --steps 20
    python benchmarks/default_layer.py --plan variants --side 12 --seconds 200

The plan "comparison" (results/default-layer.json) has the rivals, at equal units. The plan "variants"
(results/default-layer-variants.json) has `CoRNN(d, m)` with time scales that fit the length of the task, other
optimisers, other numbers of neurons and other numbers of features.

Training and validation data only; MNIST, CIFAR-10, HAR and IMDB are read from CORNN_DATA (`cornn data get`), or MNIST,
HAR and text from a file (`--pack FILE` writes it, `--data FILE` reads it). default_layer_tasks.py makes the batches. On
a GPU a training step is captured as a CUDA graph, and `--side` trainings run side by side. Every training is saved when
it ends, and skipped the next time. With `--steps` the records are files under runs/.

An earlier version of this program made the record of 2026-11-16, with the package at commit 91065a1. It differs:
- Its words of IMDB came from another tokenizer, from other reviews. Its rows of CIFAR-10 had the colours interleaved.
- Its trajectories of Lorenz-96 came from a Runge-Kutta method with a step of 0.01, standardised over both splits.
- HAR was rounded to half precision.
The images, the text, the random numbers, the order of the batches and the initial weights are the same.
"""

# pyright: reportPrivateImportUsage=false
import argparse
import datetime
import gc
import json
import math
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from default_layer_tasks import BATCH, SIZES, TASKS, load, loss_of, pack, score_of, unpack
from torch import Tensor, nn

from cornn import CoRNN, _scaling
from cornn._atomic import write_atomically
from cornn._machine import device_for
from cornn._source import source

ROOT = Path(__file__).resolve().parents[1]
RECORDS = {"comparison": "default-layer.json", "variants": "default-layer-variants.json"}
"""Plan -> file in results/."""


RATES = {  # 0.016 elsewhere; chosen on seed 0, see results/default-layer-search.json
    "gru": {"pixels": 0.004, "rows": 0.004, "imdb": 0.004},
    "lstm": {"char": 0.004, "noise": 0.001, "cifar": 0.004, "har": 0.001},
    "today": {"pixels": 0.004},
}
MODELS = ("default", "default .2", "centred", "gru", "lstm", "today")
"""`CoRNN(d, m)`, the same with a coupling of 0.2, or after `centre_`, the rivals, and the layer of version 0.1.0."""
SEEDS = (3, 4, 5)
LSTM_FAILS = ("adding500", "noise", "cifar")  # at any rate: one seed is enough
HINTED = ("adding200", "adding500", "pixels", "noise", "rows", "char", "har", "latch")  # time scales by length
WIDTHS = (16, 32, 64, 128, 256, 512)
FEATURES = {"groups1": 1, "groups4": 4, "rows": 28, "lifted100": 100, "lifted300": 300}
OPTIMISER_RATES = {
    "adamw .01": (0.016,),
    "adamw .1": (0.016,),
    "rmsprop": (0.001, 0.004),
    "sgd": (0.1, 0.5, 2.0),
}


class Job(NamedTuple):
    task: str
    model: str
    hidden_size: int
    rate: float
    seed: int
    steps: int
    optimiser: str = "adam"
    length: int | None = None

    def as_row(self) -> dict:
        """Return the fields, without those that have their default."""
        return {key: value for key, value in self._asdict().items() if self._field_defaults.get(key, ...) != value}

    @classmethod
    def from_row(cls, row: dict) -> "Job":
        return cls(**{key: row[key] for key in cls._fields if key in row})


BLOCKS = {"gru": 3, "lstm": 4}  # matrices per layer: gates and candidate


def neurons_as(rival: str, task: str) -> int:
    """Return the number of neurons, a multiple of 4, with which `CoRNN` has about as many parameters as a rival."""
    d, m = TASKS[task].features, TASKS[task].hidden
    hidden = m
    while 2 * hidden * hidden + hidden * d + hidden < BLOCKS[rival] * (m * m + m * d + 2 * m):
        hidden += 1
    return hidden - hidden % 4


def plan_comparison() -> list[Job]:
    """List the trainings of ours and of the rivals."""

    def job(task: str, model: str, seed: int, hidden: int | None = None) -> Job:
        rate = RATES.get(model, {}).get(task, 0.016)
        return Job(task, model, hidden or TASKS[task].hidden, rate, seed, TASKS[task].steps)

    jobs = []
    for seed in SEEDS:
        jobs += [job(task, "gru", seed) for task in TASKS]
        jobs += [job(task, model, seed) for task in TASKS for model in ("default", "default .2", "centred")]
        jobs += [job(task, "lstm", seed) for task in TASKS if seed == SEEDS[0] or task not in LSTM_FAILS]
        jobs += [job(task, "today", seed) for task in TASKS]
    jobs += [
        job(task, "default", seed, neurons_as(rival, task)) for rival in BLOCKS for seed in SEEDS for task in TASKS
    ]
    return list(dict.fromkeys(jobs))


def plan_variants() -> list[Job]:
    """List the trainings of ours with other time scales, optimisers, numbers of neurons and of features."""

    def job(task: str, seed: int, rate: float = 0.016, hidden: int | None = None, **others) -> Job:
        return Job(task, "default", hidden or SIZES[task].hidden, rate, seed, SIZES[task].steps, **others)

    jobs = [job(task, seed, length=SIZES[task].length) for seed in SEEDS for task in HINTED]
    jobs += [job("adding5000", seed, length=length) for seed in SEEDS for length in (None, 5000)]
    jobs += [job("adding5000", seed)._replace(model="centred") for seed in SEEDS]
    first = SEEDS[:2]
    jobs += [
        job(task, seed, rate, optimiser=optimiser)
        for seed in first
        for optimiser, rates in OPTIMISER_RATES.items()
        for rate in rates
        for task in ("rows", "adding200", "pixels")
    ]
    for seed in first:
        for rate in (0.016, 0.004, 0.064):
            jobs += [job(task, seed, rate) for task in FEATURES]
            jobs += [job(task, seed, rate, width) for width in WIDTHS for task in ("rows", "har", "adding200")]
    return list(dict.fromkeys(jobs))  # 128 neurons and 28 features are in both


PLANS: dict[str, Callable[[], list[Job]]] = {"comparison": plan_comparison, "variants": plan_variants}


def missing(record: dict, jobs: list[Job]) -> list[Job]:
    """Return the jobs that a record has no row of."""
    finished = {Job.from_row(row) for row in record["rows"]}
    return [job for job in jobs if job not in finished]


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
        sizes = SIZES[job.task]
        words = {"char": 128, "imdb": 8000}.get(job.task)
        self.every = job.task in ("char", "lorenz", "latch")
        self.embedding = None if words is None else nn.Embedding(words, sizes.features)
        self.layer = self.make_layer(job)
        self.head = nn.Linear(job.hidden_size, sizes.outputs)

    def make_layer(self, job: Job) -> nn.Module:
        return make_layer(job.model, SIZES[job.task].features, job.hidden_size, job.length)

    def embed(self, x: Tensor) -> Tensor:
        return x if self.embedding is None else Gather.apply(self.embedding.weight, x)  # pyright: ignore

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        if self.every:
            return self.head(self.layer(x)[0])
        if isinstance(self.layer, CoRNN):
            return self.head(self.layer.last_state(x)[0][-1])
        state = self.layer(x)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])


def make_layer(model: str, features: int, hidden: int, length: int | None = None) -> nn.Module:
    if model in ("gru", "lstm"):
        return {"gru": nn.GRU, "lstm": nn.LSTM}[model](features, hidden)
    if model == "today":
        return CoRNN(features, hidden, init="paper")
    changes: dict[str, object] = {"COUPLING": 0.2} if model == "default .2" else {}
    if length is not None:  # the slowest half-life is four times, the longest period once this length
        changes["SLOW_HALF_LIVES"] = (_scaling.SLOW_HALF_LIVES[0], max(4.0 * length, 32.0))
        changes["PERIODS"] = (_scaling.PERIODS[0], max(float(length), 16.0))
        changes["RINGING_HALF_LIFE"] = max(float(length), 16.0)
    previous = {name: getattr(_scaling, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(_scaling, name, value)
        return CoRNN(features, hidden)
    finally:
        for name, value in previous.items():
            setattr(_scaling, name, value)


class Training:
    """An optimiser with a cosine schedule. A step has no argument and reads no value back: a graph can replay it."""

    def __init__(self, job: Job, device: str):
        self.job, self.problem = job, load(job.task, job.seed, job.steps, device)
        torch.manual_seed(job.seed)
        self.model = Model(job).to(device)
        if job.model == "centred":
            assert isinstance(self.model.layer, CoRNN)
            inputs = [self.model.embed(self.problem.make(row)[0]) for row in self.problem.training[:10]]
            self.model.layer.centre_(torch.stack([x.detach().mean((0, 1)) for x in inputs]).mean(0))
        self.weights: list[Tensor] = list(self.model.parameters())
        self.first = [torch.zeros_like(weight) for weight in self.weights]
        self.second = [torch.zeros_like(weight) for weight in self.weights]
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(job.steps, device=device)
        self.scores: list[Tensor] = []

    def step(self) -> None:
        x, target = self.problem.make(self.problem.training.index_select(0, self.number).squeeze(0))
        loss = loss_of(self.job.task, self.model(x), target)
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            norm = torch.stack(torch._foreach_norm(gradients)).norm()
            gradients = list(torch._foreach_mul(gradients, (1 / (norm + 1e-6)).clamp(max=1.0)))
            rate = 0.5 * self.job.rate * (1 + torch.cos(math.pi * self.number.float().squeeze() / self.job.steps))
            torch._foreach_sub_(self.weights, OPTIMISERS[self.job.optimiser](self, gradients, rate))
            self.losses.index_copy_(0, self.number, loss.detach().reshape(1))
            self.number += 1

    def capture(self) -> torch.cuda.CUDAGraph:
        """Capture a step after two rehearsals, and undo them."""
        copies = [weight.detach().clone() for weight in self.weights]
        for _ in range(2):
            self.step()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            self.step()
        finally:
            graph.capture_end()
        with torch.no_grad():
            for weight, value in zip(self.weights, copies, strict=True):
                weight.copy_(value)
            for x in (*self.first, *self.second, self.number, self.losses):
                x.zero_()
        return graph

    def run(self) -> Iterator[None]:
        """Train and evaluate; yield after every few steps. On a GPU the work is queued, not done."""
        self.graph = self.capture() if self.losses.is_cuda else None  # kept until the queued replays are done
        step = self.step if self.graph is None else self.graph.replay
        for number in range(self.job.steps):
            step()
            if number % 40 == 39:
                yield
        with torch.no_grad():
            batches = map(self.problem.make, self.problem.validation)
            self.scores = [score_of(self.job.task, self.model(x), target) for x, target in batches]

    def row(self) -> dict:
        """Return the row of the record."""
        value = float(torch.stack(self.scores).mean())
        solved = solved_after(self.losses.tolist()) if self.job.task.startswith("adding") else None
        return self.job.as_row() | {"value": round(value, 5) if math.isfinite(value) else None, "solved_after": solved}


def adam(
    training: Training, gradients: list[Tensor], rate: Tensor, decay: float = 0.0, beta2: float = 0.999
) -> list[Tensor]:
    number = training.number.float().squeeze() + 1
    torch._foreach_lerp_(training.first, gradients, 0.1)
    torch._foreach_mul_(training.second, beta2)
    torch._foreach_addcmul_(training.second, gradients, gradients, 1 - beta2)
    root = list(torch._foreach_sqrt(training.second))
    torch._foreach_div_(root, torch.sqrt(1 - beta2**number))
    torch._foreach_add_(root, 1e-8)
    change = list(torch._foreach_div(training.first, root))
    torch._foreach_mul_(change, rate / (1 - 0.9**number))
    if decay:
        torch._foreach_add_(change, torch._foreach_mul(training.weights, rate * decay))
    return change


def rmsprop(training: Training, gradients: list[Tensor], rate: Tensor) -> list[Tensor]:
    torch._foreach_mul_(training.second, 0.99)
    torch._foreach_addcmul_(training.second, gradients, gradients, 0.01)
    root = list(torch._foreach_sqrt(training.second))
    torch._foreach_add_(root, 1e-8)
    return list(torch._foreach_mul(torch._foreach_div(gradients, root), rate))


def sgd(training: Training, gradients: list[Tensor], rate: Tensor) -> list[Tensor]:
    torch._foreach_mul_(training.first, 0.9)
    torch._foreach_add_(training.first, gradients)
    return list(torch._foreach_mul(training.first, rate))


OPTIMISERS: dict[str, Callable[[Training, list[Tensor], Tensor], list[Tensor]]] = {
    "adam": adam,
    "adam .99": lambda training, gradients, rate: adam(training, gradients, rate, beta2=0.99),
    "adamw .01": lambda training, gradients, rate: adam(training, gradients, rate, decay=0.01),
    "adamw .1": lambda training, gradients, rate: adam(training, gradients, rate, decay=0.1),
    "rmsprop": rmsprop,
    "sgd": sgd,
}
"""Name -> function (training, clipped gradients, rate) -> what is subtracted from the weights. SGD has momentum 0.9;
the number after "adam" is beta2, the one after "adamw" the weight decay."""


def solved_after(losses: list[float]) -> int | None:
    """Return the first step at which the running mean of the MSE is below 0.01."""
    mean = 1.0
    for number, loss in enumerate(losses):
        mean = 0.95 * mean + 0.05 * loss
        if mean < 0.01:
            return number
    return None


def compile_kernels(job: Job) -> None:
    """Run one step on zeros, which leaves the kernels in the cache."""
    sizes, model = SIZES[job.task], Model(job).cuda()
    shape = (8, BATCH) if model.embedding is not None else (8, BATCH, sizes.features)
    x = torch.zeros(shape, dtype=torch.int64 if model.embedding is not None else torch.float32, device="cuda")
    model(x).sum().backward()


def compile_side_by_side(jobs: list[Job]) -> None:
    """Compile the kernels of all jobs in processes of their own. Up to 4 features are part of a kernel."""
    kinds = {
        (job.hidden_size, min(SIZES[job.task].features, 5), job.task in ("char", "lorenz", "latch")): job
        for job in jobs
        if job.model not in ("gru", "lstm")
    }
    if len(kinds) > 1:
        with multiprocessing.get_context("spawn").Pool(min(8, len(kinds))) as pool:
            pool.map(compile_kernels, kinds.values(), chunksize=1)


class Queue:
    """A training that runs on a stream of its own, a few steps ahead."""

    def __init__(self, job: Job, device: str):
        self.job, self.began = job, time.perf_counter()
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        with torch.cuda.stream(self.stream):
            self.training = Training(job, device)
        self.steps, self.pending = self.training.run(), deque[torch.cuda.Event]()
        self.queued = False

    def advance(self) -> bool:
        """Queue more steps if few are waiting; return whether anything was done."""
        while self.pending and self.pending[0].query():
            self.pending.popleft()
        if self.queued or len(self.pending) > 3:
            return False
        with torch.cuda.stream(self.stream):
            self.queued = next(self.steps, True) is True
            if self.stream is not None:
                event = torch.cuda.Event()
                event.record()
                self.pending.append(event)
        return True

    def done(self) -> bool:
        return self.queued and all(event.query() for event in self.pending)


def train_all(jobs: list[Job], device: str, side: int, seconds: float) -> Iterator[tuple[Job, dict, float]]:
    """Run `side` trainings at a time; start none after `seconds`. Yields job, row and seconds as they end."""
    start, waiting, active = time.perf_counter(), deque(jobs), list[Queue]()
    if device == "cuda":
        compile_side_by_side(jobs)
    gc.disable()  # nothing may be freed during a capture
    try:
        while active or (waiting and time.perf_counter() - start < seconds):
            if waiting and len(active) < side and time.perf_counter() - start < seconds:
                job = waiting.popleft()
                try:
                    queue = Queue(job, device)
                    queue.advance()
                    active.append(queue)
                except RuntimeError as error:  # out of memory, for instance: the others continue
                    print(job, error, flush=True)
            busy = [queue.advance() for queue in active]
            for queue in [queue for queue in active if queue.done()]:
                active.remove(queue)
                with torch.cuda.stream(queue.stream):
                    yield queue.job, queue.training.row(), time.perf_counter() - queue.began
                gc.collect()
            if not any(busy):
                time.sleep(0.0005)
    finally:
        gc.enable()


TEXTS = {
    "variants": {
        "what": "CoRNN(d, m) with its defaults and the variants of one thing: length (the longest half-life is four "
        "times, the longest period once this length; at commit 9fc1610 an argument of the layer); "
        "optimiser (adam unless given; adamw with a weight decay of .01 or .1; sgd with momentum 0.9); hidden_size; "
        "rate; and features, by the tasks groups1, groups4 (MNIST, 1 or 4 pixels per step), rows (28), lifted100 and "
        "lifted300 (rows times a random matrix). Validation data only, batch 64, cosine schedule, clipping at 1. "
        "solved_after: step at which the running mean of the training MSE falls below 0.01.",
    }
}


def read_record(plan: str, folder: Path, device: str) -> dict:
    """Read the record of a plan; without one, return a record without rows."""
    path = folder / RECORDS[plan]
    if path.exists():
        return json.loads(path.read_text(encoding="utf8"))
    published = ROOT / "results" / RECORDS[plan]
    texts = json.loads(published.read_text(encoding="utf8")) if published.exists() else TEXTS[plan]
    return texts | describe_machine(device) | {"missing": [], "rows": []}


def describe_machine(device: str) -> dict:
    gpu = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {**source(), "machine": gpu, "torch": torch.__version__, "date": today}


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
    parser.add_argument("--plan", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--tasks", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--steps", type=int, help="training steps, to try the program")
    parser.add_argument("--folder", type=Path, help="of the records: results/, or runs/default-layer with --steps")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--side", type=int, default=1, help="trainings side by side on a GPU")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no training after this time")
    parser.add_argument("--pack", type=Path, help="write MNIST, HAR and text to this file and stop")
    parser.add_argument("--data", type=Path, help="read MNIST, HAR and text from this file")
    parser.add_argument("--dry-run", action="store_true", help="print the list of trainings and stop")
    options = parser.parse_args(arguments)
    if options.pack:
        return pack(options.pack)
    if options.data:
        unpack(options.data)
    device = device_for(options.device)
    folder = options.folder or ROOT / ("runs/default-layer" if options.steps else "results")
    plans, records, left = {}, {}, {}
    for plan in options.plan:
        jobs = PLANS[plan]()
        plans[plan] = [job._replace(steps=options.steps or job.steps) for job in jobs]
        records[plan] = read_record(plan, folder, device)
        selected = [
            job
            for job in plans[plan]
            if job.task in options.tasks and job.model in options.models and job.seed in options.seeds
        ]
        lacking = missing(records[plan], selected)
        left |= dict.fromkeys(lacking, plan)
        if options.dry_run:
            for job in selected:
                fields = " ".join(f"{key}={value}" for key, value in job.as_row().items())
                print(fields, "- missing" if job in lacking else "- done")
            print(f"{len(selected)} trainings, {len(lacking)} missing in {folder / RECORDS[plan]}")
    if options.dry_run:
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    folder.mkdir(parents=True, exist_ok=True)
    origin = describe_machine(device)
    side_by_side = options.side if device == "cuda" else 1
    for job, row, seconds in train_all(list(left), device, side_by_side, options.seconds):
        plan = left[job]
        record = records[plan]
        row |= {key: value for key, value in origin.items() if value != record.get(key)}  # rows of another run say so
        record["rows"].append(row)
        record["missing"] = [job.as_row() for job in missing(record, plans[plan])]
        write_atomically(folder / RECORDS[plan], to_text(record).encode())
        print(json.dumps(row), f"{seconds:.1f} s", flush=True)
    return None


if __name__ == "__main__":
    main()
