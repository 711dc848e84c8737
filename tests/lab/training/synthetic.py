"""A task small enough to train in a moment, with every turn a task can take; `register()` makes it known.

As a program it trains: `python synthetic.py OUT '{"noise": 0.1}' '{"epochs": 3}'`, or goes on with what is at OUT.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from cornn._random import generator
from cornn.lab import training
from cornn.lab.config import Budget, CoRNNSpec, Optimiser, Train
from cornn.lab.recipes import RECIPES, Recipe, resolve
from cornn.lab.runs import Run
from cornn.lab.tasks import TASKS, Batch, Task, TaskOptions
from cornn.lab.tasks.task import Split
from cornn.lab.training import Progress, Watch

STEPS, FEATURES, CLASSES = 12, 3, 3


@dataclass(frozen=True)
class Synthetic(TaskOptions):
    """Which of three features has the largest sum."""

    size: int = 37
    """Training sequences."""
    uneven: bool = False
    """Whether the size depends on the seed."""
    noise: float = 0.0
    """Fresh at every presentation in training."""
    ragged: bool = False
    """Whether sequences differ in length."""
    every: bool = False
    """Whether the state is read at every step."""
    words: bool = False
    """Whether the input is words."""

    name: ClassVar[str] = "synthetic"

    @property
    def embedded(self) -> bool:
        return self.words

    def load(self, seed: int, data: Path | None = None) -> Task:
        if data is not None and not Path(data).exists():
            raise FileNotFoundError(f"no synthetic data under {data}: make some")
        size = self.size + (3 * seed if self.uneven else 0)
        return Task(
            name="synthetic",
            inputs=FEATURES,
            outputs=CLASSES,
            length=STEPS,
            input_mean=(0.0,) * FEATURES,
            training=self._split(size, "training", seed, self.noise),
            validation=self._split(50, "validation", seed, 0.0),
            test=lambda: self._split(60, "test", 0, 0.0),
            loss=self._loss,
            score=self._score,
            metric="accuracy",
            better="higher",
            trivial=100 / CLASSES,
            trivial_words="of guessing",
            read="every" if self.every else "last",
            words=torch.randn(20, FEATURES, generator=generator(0, "words")) if self.words else None,
        )

    def _split(self, size: int, name: str, seed: int, noise: float) -> Split:
        random = generator(seed, "synthetic", name)
        input = torch.randn(size, STEPS, FEATURES, generator=random)
        rows = {"target": input.sum(1).argmax(-1), "length": torch.randint(1, STEPS + 1, (size,), generator=random)}
        rows["input"] = torch.randint(0, 20, (size, STEPS), generator=random) if self.words else input

        def make(rows: Mapping[str, torch.Tensor], shared: object, random: torch.Generator) -> Batch:
            input, target = rows["input"].transpose(0, 1), rows["target"]
            if noise:
                input = input + noise * torch.randn(input.shape, generator=random, device=input.device)
            if self.ragged:
                longest = int(rows["length"].max())
                return Batch(input[:longest], target, rows["length"])
            return Batch(input, target.expand(STEPS, -1) if self.every else target)

        return Split(size, make, rows, ragged=self.ragged)

    def _loss(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(prediction.flatten(0, -2), target.flatten())

    def _score(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        right = 100.0 * (prediction.argmax(-1) == target)
        return right.mean(0) if self.every else right


TRAIN = Train(
    Synthetic(),
    CoRNNSpec(hidden_size=8, dt=0.2, gamma=1.0, epsilon=2.0),
    Optimiser(learning_rate=1e-2),
    Budget(batch_size=10, epochs=3),
)


def register() -> None:
    TASKS["synthetic"] = Synthetic
    RECIPES["synthetic"] = {"ours": Recipe(TRAIN, "made up", "ours")}


def stop_at(step: int) -> Watch:
    """Return a watcher that stops a run after `step` steps, as Ctrl-C does."""

    def watch(progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    return watch


def assert_same_end(one: Run, other: Run) -> None:
    """Check that two runs have the same weights, curve and result, to the bit."""
    for name, value in one.weights().items():
        assert torch.equal(value, other.weights()[name]), name
    for names in ("step", "metric", "loss"):
        assert [row[names] for row in one.metrics()] == [row[names] for row in other.metrics()]
    assert one.result["test"] == other.result["test"]
    assert one.result["best_step"] == other.result["best_step"]


def main(out: Path, options: str | None = None, changes: str = "{}") -> None:
    register()
    if options is None:
        (training.resume_seeds if training.holds_seeds(out) else training.resume)(out)
    else:
        given = json.loads(changes)
        seeds = given.pop("seeds", None)
        config = resolve("synthetic", **({"device": "cpu"} | json.loads(options) | given))
        if seeds is None:
            training.fit(config, out)
        else:
            training.fit_seeds(config, range(seeds), out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), *sys.argv[2:])
