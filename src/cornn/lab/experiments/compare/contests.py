"""What is compared: a task, how long a trial and a final run are, and who takes part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cornn._checked import without_defaults
from cornn._random import generator
from cornn.lab.config import Train
from cornn.lab.recipes import resolve
from cornn.lab.recipes.ranges import ENTRANTS, space
from cornn.lab.tasks import HAR2, Adding, NoisyCIFAR10, PermutedMNIST

__all__ = ["CONTESTS", "Contest", "select_contests"]

TRIAL_SEED = 0
"""All trials share their split, and their first weights where the model is the same."""


@dataclass(frozen=True)
class Contest:
    """A comparison on one task. Lengths are in steps or in epochs."""

    name: str
    task: Any
    recipe: str  # of the task: what all models share
    starts: Mapping[str, str]  # an entrant's start, where not the usual one -> its recipe
    unit: str  # "steps" or "epochs"
    trial: int  # how long one is
    final: int
    hidden_size: int
    entrants: tuple[str, ...]
    trials: int = 12
    seeds: int = 3  # number of final runs with the best trial's settings, with the seeds 1, 2, ...
    until: float = 0.0  # a final run stops once its validation is as good
    batch_size: int | None = None  # of all models; None: the recipe's

    @property
    def about(self) -> dict[str, Any]:
        """What has to be the same for outcomes to be comparable."""
        name, changed = self.task.name, without_defaults(self.task)
        own = {size: getattr(self, size) for size in ("unit", "trial", "final", "hidden_size")}
        own |= {} if self.batch_size is None else {"batch_size": self.batch_size}
        return {"task": {"name": name, **changed}, **own}

    def space(self, entrant: str) -> dict[str, str]:
        """What is tuned, in words."""
        return {setting: str(draw) for setting, draw in space(self.task.name, entrant).items()}

    def values(self, entrant: str, trial: int) -> dict[str, Any]:
        """What a trial tries: it depends on the contest, the entrant and the trial's number alone."""
        random = generator(TRIAL_SEED, "compare", self.name, entrant, trial)
        return {setting: draw.draw(random) for setting, draw in space(self.task.name, entrant).items()}

    def configuration(self, entrant: str, values: Mapping[str, Any], seed: int = TRIAL_SEED) -> Train:
        """A trial's training, or with another seed that of a final run.

        The rate of all falls to 0 along a cosine, and the weights of the best validation are kept.
        """
        who, trial = ENTRANTS[entrant], seed == TRIAL_SEED
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        layer = {name: given.pop(name) for name in who.layer}
        sizes = {self.unit: self.trial if trial else self.final, "hidden_size": self.hidden_size}
        sizes |= {} if self.batch_size is None else {"batch_size": self.batch_size}
        start = resolve(self.task.name, self.starts.get(who.start, self.recipe))
        return replace(start, task=self.task).override(
            model=who.model,
            layer=layer or None,
            schedule="cosine",
            drop_after=0,
            warm_up=0,
            keep="best",
            until=0.0 if trial else self.until,
            seed=seed,
            **sizes,
            **given,
        )


_ADDING = ("cornn", "cornn-memory", "lstm", "gru", "tanh-rnn", "fastrnn", "antisymmetric", "exprnn", "lem")
# LEM, which takes longest, comes last, so that it keeps no other waiting.
_PSMNIST = ("cornn-ringing", *_ADDING[:-1], "fastgrnn", "gated-antisymmetric", "lipschitz", "dtriv", "lem")
# The rows of the paper's table, but for the incremental network, which is slow; and neurons that ring.
_NOISY_CIFAR10 = ("cornn", "cornn-ringing", "lstm", "fastrnn", "antisymmetric", "gated-antisymmetric", "lipschitz")
_SLOW = ("cornn", "cornn-memory", "cornn-ringing", "lstm", "skip-lstm", "skip-gru", "incremental", "unitary")

_STARTS = {"memory": "memory", "ringing": "ringing"}


def _adding(length: int, trial: int, final: int) -> Contest:
    name = f"adding-{length}"
    return Contest(name, Adding(length), "paper", {"memory": "ours"}, "steps", trial, final, 128, _ADDING, until=0.008)


CONTESTS = {
    "adding-500": _adding(500, 1000, 3000),
    "har2": Contest("har2", HAR2(), "paper", _STARTS, "epochs", 25, 100, 64, tuple(ENTRANTS)),
    "psmnist": Contest("psmnist", PermutedMNIST(), "paper-128", _STARTS, "epochs", 2, 20, 128, _PSMNIST),
    "noisy-cifar10": Contest(
        "noisy-cifar10", NoisyCIFAR10(), "paper", {"ringing": "ringing"}, "epochs", 2, 10, 128, _NOISY_CIFAR10, trials=8
    ),
    # Half an epoch and two. A network that is walked step by step takes about as long for 500 sequences as for 120.
    "psmnist-short": Contest(
        "psmnist-short", PermutedMNIST(), "paper-128", _STARTS, "steps", 57, 228, 128, _SLOW, trials=6, batch_size=500
    ),
    "adding-2000": _adding(2000, 600, 2000),
    "adding-5000": _adding(5000, 400, 1500),
}
"""Name -> what is compared, in the order in which it is wanted."""


def select_contests(contests: Sequence[str], models: Sequence[str] = (), **changes: int | None) -> list[Contest]:
    """Return the contests with these names ("all" for all), restricted to these entrants if any are given.

    changes: to the number of trials and of seeds, and to the lengths of a trial and of a final run, unless None.
    """
    for wanted, known, what in ((contests, ("all", *CONTESTS), "contest"), (models, tuple(ENTRANTS), "model")):
        for name in wanted:
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}: choose from {', '.join(known)}")
    given = {name: value for name, value in changes.items() if value is not None}
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"{name} must be above 0, got {value}")
    chosen = [CONTESTS[name] for name in CONTESTS if name in contests or "all" in contests]
    changed = [replace(contest, **given) for contest in chosen]
    if not models:
        return changed
    return [replace(one, entrants=tuple(name for name in one.entrants if name in models)) for one in changed]
