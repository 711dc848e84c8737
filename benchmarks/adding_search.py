"""Search settings that solve the adding problem: many models side by side on one GPU, each with its own settings.

    python benchmarks/adding_search.py --length 500 --models 256 --json results/adding-search/NAME.json
    python benchmarks/adding_search.py --length 500 --variants variants.json --seeds 12 --json ...
    python benchmarks/adding_search.py --again results/adding-search/10-feedback-5000.json --json ...

The first command draws settings at random. The second takes a list of dictionaries, each a change to `BASE` below, and
trains every one from several seeds; with the same seed, variants start from the same weights up to their scale. The
third repeats a recorded search of variants with its settings, length, steps and seeds. A model solves the task at the
first step at which the running mean of its training loss, on new sequences throughout, is below 0.01. At the end all
models are tested on 1,000 further sequences.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from cornn import engine
from cornn._machine import machine
from cornn._source import source
from cornn.lab.tasks.adding import draw

BASE = {
    "rate": 1.2e-2,  # Adam's learning rate
    "V_rate": 1.0,  # learning rates of V, b, W with W_z, and the head, as shares of it
    "b_rate": 1.0,
    "recurrent_rate": 0.1,
    "head_rate": 1.0,
    "beta1": 0.9,
    "beta2": 0.99,
    "clip": 0.1,
    "cosine": 1.0,  # 1: cosine schedule down to 0
    "average": 0.0,  # tested weights: 0 the last, 0.99 an average over about the last hundred steps
    "dt": 0.3,
    "damping": 0.7,  # epsilon * dt
    "shortest": 0.1,  # half-lives of the neurons, as shares of the length
    "longest": 2.0,
    "V": 3.0,  # half-widths of the uniform distributions of the initial weights
    "V_spread": 1.0,  # above 1: V is log-uniform in size, from V / V_spread to V
    "b": 0.3,
    "W": 0.05,  # as a share of the paper's
    "feedback": 0.0,  # kappa: adds -kappa V V^+ to W, which subtracts the accumulated input
    "head": 1.0,  # as a share of nn.Linear's
    "centre": 1.0,  # 1: b is shifted such that the average input drives no neuron
}
# (low, high) is drawn log-uniformly, a list is drawn from; what is not here is as in BASE.
SPACE = {
    "rate": (1e-3, 3e-2),
    "recurrent_rate": [1.0],
    "beta2": [0.999],
    "clip": [0.1, 1.0, 10.0],
    "cosine": [0.0, 1.0],
    "dt": (0.03, 0.95),
    "damping": (0.05, 1.0),
    "shortest": (0.005, 0.25),
    "longest": (0.5, 8.0),
    "V": (0.3, 6.0),
    "b": (0.3, 6.0),
    "W": [0.0, 0.03, 0.1, 0.3, 1.0],
    "head": (0.1, 10.0),
    "centre": [0.0],
}
WEIGHTS = ("V", "b", "R", "head", "offset")
RATES = {"V": "V_rate", "b": "b_rate", "R": "recurrent_rate", "head": "head_rate", "offset": "head_rate"}
TEST_SEQUENCES = 1000


REPEATED = ("length", "hidden_size", "batch_size", "steps", "seeds", "seed")
"""Options that `--again` takes from the record."""


def settings(options: argparse.Namespace, random: torch.Generator) -> dict[str, Tensor]:
    """Return one value per model for every setting."""
    if options.again:
        recorded = json.loads(options.again.read_text())["settings"]
        models = len(recorded["dt"])
        # A setting that is newer than the record had the value of BASE.
        return {name: torch.tensor(recorded.get(name, [value] * models)) for name, value in BASE.items()}
    if options.variants:
        changes = json.loads(options.variants.read_text())
        unknown = {name for change in changes for name in change} - set(BASE)
        if unknown:
            raise SystemExit(f"{options.variants} names {', '.join(sorted(unknown))}: choose among {', '.join(BASE)}")
        variants = [BASE | change for change in changes for _ in range(options.seeds)]
        return {name: torch.tensor([float(v[name]) for v in variants]) for name in BASE}
    values = {name: torch.full((options.models,), value) for name, value in BASE.items()}
    for name, choice in SPACE.items():
        if isinstance(choice, tuple):
            low, high = (math.log(end) for end in choice)
            values[name] = torch.exp(torch.rand(options.models, generator=random) * (high - low) + low)
        else:
            values[name] = torch.tensor(choice)[torch.randint(len(choice), (options.models,), generator=random)]
    return values


class Group:
    """The models, their optimiser, and one training step of all of them that a CUDA graph can hold."""

    def __init__(self, values: dict[str, Tensor], options: argparse.Namespace, random: torch.Generator) -> None:
        self.values = {name: value.to(options.device) for name, value in values.items()}
        self.options = options
        self.models = models = len(values["dt"])
        m = options.hidden_size
        self.constants = self._oscillators(values).to(options.device)
        seeds = options.seeds if options.variants or options.again else models

        def uniform(*shape: int, width: Tensor | float = 1.0) -> Tensor:
            uniform_weights = torch.rand(seeds, *shape, generator=random) * 2 - 1
            width = torch.as_tensor(width).expand(models).reshape(models, *[1] * len(shape))
            return uniform_weights.repeat(models // seeds, *[1] * len(shape)) * width

        spread, top = (values[name][:, None, None] for name in ("V_spread", "V"))
        V = uniform(m, 2)
        V = torch.where(spread > 1, V.sign() * spread ** (V.abs() - 1), V) * top
        b = uniform(m, width=values["b"]) - 0.5 * values["centre"][:, None] * V[:, :, 0]
        R = uniform(m, 2 * m, width=values["W"] * (2 + 2 * m) ** -0.5)
        R[:, :, :m] -= values["feedback"][:, None, None] * (V @ torch.linalg.pinv(V))
        head = uniform(m, width=values["head"] * m**-0.5)
        weights = (V, b, R, head, torch.zeros(models, 1))
        self.weights = [weight.to(options.device).requires_grad_() for weight in weights]
        self.moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in self.weights]
        self.averages = [weight.detach().clone() for weight in self.weights]
        self.step_number = torch.zeros((), device=options.device)
        self.loss = torch.zeros(models, device=options.device)
        self.random = torch.Generator(options.device).manual_seed(options.seed)

    def _oscillators(self, values: dict[str, Tensor]) -> Tensor:
        """dt, gamma and epsilon, (3, models, neurons)."""
        m = self.options.hidden_size
        dt, epsilon = values["dt"][:, None], (values["damping"] / values["dt"])[:, None]
        share = torch.linspace(0, 1, m)
        ends = [torch.log(values[name] * self.options.length)[:, None] for name in ("shortest", "longest")]
        half_lives = torch.exp(ends[0] * (1 - share) + ends[1] * share)
        gamma = torch.minimum(math.log(2) * epsilon / (half_lives * dt), epsilon**2 / 4)
        return torch.stack((dt.expand(-1, m), gamma, epsilon.expand(-1, m)))

    def errors(self, weights: list[Tensor], random: torch.Generator) -> Tensor:
        """The mean squared error of each model on a batch of fresh sequences, the same for all."""
        (V, b, R, head, offset), size = weights, self.options.batch_size
        input, target, _ = draw(size, self.options.length, random)
        _, (y, _) = engine.run(
            input[:, None].expand(-1, self.models, -1, -1),
            torch.zeros(2, self.models, size, self.options.hidden_size, device=input.device),
            V,
            b,
            R,
            self.constants,
            update=engine.OSCILLATORS["explicit", "tanh"],
            every=False,
            backend=self.options.backend,
        )
        return (((y[0] * head[:, None]).sum(-1) + offset - target) ** 2).mean(-1)

    def step(self) -> None:
        loss = self.errors(self.weights, self.random)
        gradients = torch.autograd.grad(loss.sum(), self.weights)
        with torch.no_grad():
            self.loss.copy_(loss)
            self._adam(gradients)

    @torch.no_grad()
    def test(self) -> Tensor:
        random = torch.Generator(self.options.device).manual_seed(self.options.seed + 1)
        batches = math.ceil(TEST_SEQUENCES / self.options.batch_size)
        return torch.stack([self.errors(self.averages, random) for _ in range(batches)]).mean(0)

    def _adam(self, gradients: tuple[Tensor, ...]) -> None:
        """Adam with clipping, its settings differing from model to model."""
        values = self.values
        self.step_number += 1
        norm = torch.sqrt(sum(g.reshape(self.models, -1).square().sum(1) for g in gradients))
        scale = (values["clip"] / torch.nan_to_num(norm, nan=1e30, posinf=1e30)).clamp(max=1.0)
        falling = 0.5 + 0.5 * torch.cos(math.pi * self.step_number / self.options.steps)
        rate = values["rate"] * torch.where(values["cosine"] > 0, falling, 1.0)
        for i, (weight, gradient, (first, second)) in enumerate(
            zip(self.weights, gradients, self.moments, strict=True)
        ):
            shape = (self.models, *[1] * (weight.dim() - 1))
            beta1, beta2, average = (values[name].reshape(shape) for name in ("beta1", "beta2", "average"))
            gradient = torch.nan_to_num(gradient * scale.reshape(shape), nan=0.0, posinf=0.0, neginf=0.0)
            first.mul_(beta1).add_((1 - beta1) * gradient)
            second.mul_(beta2).add_((1 - beta2) * gradient.square())
            rates = (rate * values[RATES[WEIGHTS[i]]]).reshape(shape)
            change = (first / (1 - beta1**self.step_number)) / ((second / (1 - beta2**self.step_number)).sqrt() + 1e-8)
            weight -= rates * change
            self.averages[i].mul_(average).add_((1 - average) * weight)


def captured(group: Group):
    """The group's step as a CUDA graph: thousands of small launches become one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            group.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(group.random)
    with torch.cuda.graph(graph):
        group.step()
    return graph.replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=500)
    parser.add_argument("--hidden-size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--models", type=int, default=256)
    parser.add_argument("--variants", type=Path)
    parser.add_argument("--again", type=Path, help="a record of a search of variants, to repeat it")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--every", type=int, default=250, help="steps from one line to the next")
    parser.add_argument("--seconds", type=float, default=math.inf, help="training ends after this time at the latest")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.again:
        recorded = json.loads(options.again.read_text())["options"]
        vars(options).update({name: recorded[name] for name in REPEATED})

    random = torch.Generator().manual_seed(options.seed)
    values = settings(options, random)
    group = Group(values, options, random)
    step = captured(group) if options.device == "cuda" else group.step
    mean = torch.full((group.models,), 0.3, device=options.device)
    solved = torch.zeros(group.models, device=options.device)
    curve: dict[int, list[float]] = {}
    start = time.perf_counter()
    seconds = 0.0
    for number in range(1, options.steps + 1):
        step()
        mean.lerp_(torch.nan_to_num(group.loss, nan=1e3), 0.05)
        solved = torch.where((solved == 0) & (mean < 0.01), float(number), solved)
        if number % options.every == 0 or number == options.steps:
            curve[number] = mean.tolist()
            seconds = time.perf_counter() - start
            done = int((solved > 0).sum())
            best = ", ".join(f"{x:.4f}" for x in sorted(curve[number])[:5])
            print(f"step {number}: {done} of {group.models} solved, best {best}, {seconds:.0f} s", flush=True)
            if seconds * (number + options.every) / number > options.seconds:
                break
    test = group.test().tolist()
    solved, mean = solved.tolist(), mean.tolist()
    print(f"length {options.length}: {sum(s > 0 for s in solved)} of {group.models} solved, {seconds:.1f} s")
    print("steps to solve it, last running means, test errors, settings")
    variants = bool(options.variants or options.again)
    per = options.seeds if variants else 1
    order = range(0, group.models, per)
    if not variants:
        order = sorted(order, key=lambda i: (solved[i] or math.inf, mean[i]))[:15]
    for i in order:
        differs = {k: round(v[i].item(), 5) for k, v in values.items() if round(v[i].item(), 6) != round(BASE[k], 6)}
        figures = ([round(x, 4) for x in kind[i : i + per]] for kind in (mean, test))
        print([int(s) for s in solved[i : i + per]], *figures, differs)
    if options.json:
        content = {
            "options": {k: v for k, v in vars(options).items() if k not in ("json", "variants", "again", "seconds")},
            "settings": {name: value.tolist() for name, value in values.items()},
            "solved_at": solved,
            "running_mean": mean,
            "test": test,
            "curve": curve,
            "steps_done": max(curve, default=0),
            "seconds": seconds,
            "machine": machine(),
            **source(),
        }
        options.json.write_text(json.dumps(content) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
