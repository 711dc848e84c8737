"""Which settings solve the adding problem: many models side by side, each with its own, on one GPU.

    python benchmarks/adding_search.py --length 500 --models 256 --json results/adding-search/NAME.json
    python benchmarks/adding_search.py --length 500 --variants variants.json --seeds 12 --json ...

The first draws settings at random. The second takes a list of dictionaries, each a change to the recipe of paper.py
(`BASE` below names the settings), and trains every one from several seeds. A model has solved the task at the first
step at which the running mean of its training loss, on fresh sequences throughout, is below 0.01.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from cornn import engine
from cornn.runs import machine
from cornn.tasks.adding import draw

BASE = {
    "rate": 1.2e-2,  # of Adam
    "recurrent_rate": 0.1,  # of W and W_z, as a share of it
    "beta2": 0.99,
    "clip": 0.1,
    "cosine": 1.0,  # 1: the rate falls to 0 along a cosine
    "dt": 0.3,
    "damping": 0.7,  # epsilon * dt
    "shortest": 0.1,  # half-lives of the neurons, as shares of the length
    "longest": 2.0,
    "V": 3.0,  # half-widths of the uniform distributions of the first weights
    "b": 0.3,
    "W": 0.05,  # as a share of the paper's
    "head": 1.0,  # as a share of nn.Linear's
    "centre": 1.0,  # 1: b is shifted such that the average input drives no neuron
}
# (low, high) is drawn log-uniformly, a list is drawn from.
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


def settings(options: argparse.Namespace, random: torch.Generator) -> dict[str, Tensor]:
    """One value a model, setting by setting."""
    if options.variants:
        variants = [BASE | change for change in json.loads(options.variants.read_text())]
        return {name: torch.tensor([v[name] for v in variants for _ in range(options.seeds)]) for name in BASE}
    drawn = {}
    for name, choice in SPACE.items():
        if isinstance(choice, tuple):
            low, high = (math.log(end) for end in choice)
            drawn[name] = torch.exp(torch.rand(options.models, generator=random) * (high - low) + low)
        else:
            drawn[name] = torch.tensor(choice)[torch.randint(len(choice), (options.models,), generator=random)]
    return drawn


class Group:
    """The models, their optimiser, and one training step of all of them that a CUDA graph can hold."""

    def __init__(self, values: dict[str, Tensor], options: argparse.Namespace, random: torch.Generator) -> None:
        self.values = {name: value.to(options.device) for name, value in values.items()}
        self.options = options
        self.models = models = len(values["dt"])
        m, length = options.hidden_size, options.length
        dt, epsilon = values["dt"], values["damping"] / values["dt"]
        share = torch.linspace(0, 1, m)
        ends = [torch.log(values[name] * length)[:, None] for name in ("shortest", "longest")]
        half_lives = torch.exp(ends[0] * (1 - share) + ends[1] * share)
        gamma = math.log(2) * epsilon[:, None] / (half_lives * dt[:, None])
        gamma = torch.minimum(gamma, (epsilon**2 / 4)[:, None])
        columns = (dt[:, None].expand(-1, m), gamma, epsilon[:, None].expand(-1, m))
        self.constants = torch.stack(columns).to(options.device)

        def uniform(*shape: int, width: Tensor) -> Tensor:
            width = width.reshape(models, *[1] * (len(shape) - 1))
            return (torch.rand(*shape, generator=random) * 2 - 1) * width

        V = uniform(models, m, 2, width=values["V"])
        b = uniform(models, m, width=values["b"]) - 0.5 * values["centre"][:, None] * V[:, :, 0]
        R = uniform(models, m, 2 * m, width=values["W"] * (2 + 2 * m) ** -0.5)
        head = uniform(models, m, width=values["head"] * m**-0.5)
        weights = (V, b, R, head, torch.zeros(models, 1))
        self.weights = [weight.to(options.device).requires_grad_() for weight in weights]
        self.moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in self.weights]
        self.state = torch.zeros(2, models, options.batch_size, m, device=options.device)
        self.step_number = torch.zeros((), device=options.device)
        self.loss = torch.zeros(models, device=options.device)
        self.random = torch.Generator(options.device).manual_seed(options.seed)

    def step(self) -> None:
        options, (V, b, R, head, offset) = self.options, self.weights
        input, target, _ = draw(options.batch_size, options.length, self.random)
        input = input[:, None].expand(-1, self.models, -1, -1)
        _, last = engine.run(
            input,
            self.state,
            V,
            b,
            R,
            self.constants,
            update="cornn/explicit/tanh",
            every=False,
            backend=options.backend,
        )
        loss = (((last[0] * head[:, None]).sum(-1) + offset - target) ** 2).mean(-1)
        gradients = torch.autograd.grad(loss.sum(), self.weights)
        with torch.no_grad():
            self.loss.copy_(loss)
            self._adam(gradients)

    def _adam(self, gradients: tuple[Tensor, ...]) -> None:
        """Adam with clipping, its settings differing from model to model."""
        values = self.values
        self.step_number += 1
        norm = torch.sqrt(sum(g.reshape(self.models, -1).square().sum(1) for g in gradients))
        scale = (values["clip"] / torch.nan_to_num(norm, nan=1e30, posinf=1e30)).clamp(max=1.0)
        falling = 0.5 + 0.5 * torch.cos(math.pi * self.step_number / self.options.steps)
        rate = values["rate"] * torch.where(values["cosine"] > 0, falling, 1.0)
        for weight, gradient, (first, second) in zip(self.weights, gradients, self.moments, strict=True):
            shape = (self.models, *[1] * (weight.dim() - 1))
            beta2 = values["beta2"].reshape(shape)
            gradient = torch.nan_to_num(gradient * scale.reshape(shape), nan=0.0, posinf=0.0, neginf=0.0)
            first.lerp_(gradient, 0.1)
            second.mul_(beta2).add_((1 - beta2) * gradient.square())
            own = rate * values["recurrent_rate"] if weight is self.weights[2] else rate
            change = (first / (1 - 0.9**self.step_number)) / ((second / (1 - beta2**self.step_number)).sqrt() + 1e-8)
            weight -= own.reshape(shape) * change


def captured(group: Group):
    """The group's step as a CUDA graph: thousands of small launches become one."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            group.step()
    torch.cuda.current_stream().wait_stream(side)
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
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    random = torch.Generator().manual_seed(options.seed)
    values = settings(options, random)
    group = Group(values, options, random)
    step = captured(group) if options.device == "cuda" else group.step
    mean = torch.full((group.models,), 0.3, device=options.device)
    solved = torch.zeros(group.models, device=options.device)
    began = time.perf_counter()
    for number in range(1, options.steps + 1):
        step()
        mean.lerp_(torch.nan_to_num(group.loss, nan=1e3), 0.05)
        solved = torch.where((solved == 0) & (mean < 0.01), float(number), solved)
    solved, mean = solved.tolist(), mean.tolist()
    seconds = time.perf_counter() - began
    print(f"length {options.length}: {sum(s > 0 for s in solved)} of {group.models} solved, {seconds:.1f} s")
    per = options.seeds if options.variants else 1
    order = range(0, group.models, per)
    if not options.variants:
        order = sorted(order, key=lambda i: (solved[i] or math.inf, mean[i]))[:15]
    for i in order:
        differs = {k: round(v[i].item(), 4) for k, v in values.items() if round(v[i].item(), 6) != round(BASE[k], 6)}
        print([int(s) for s in solved[i : i + per]], [round(x, 4) for x in mean[i : i + per]], differs)
    if options.json:
        content = {
            "options": {k: v for k, v in vars(options).items() if k not in ("json", "variants")},
            "settings": {name: value.tolist() for name, value in values.items()},
            "solved_at": solved,
            "running_mean": mean,
            "seconds": seconds,
            "machine": machine(),
        }
        options.json.write_text(json.dumps(content) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
