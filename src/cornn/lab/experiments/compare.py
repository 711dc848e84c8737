"""Compare coRNN and its rivals at equal tuning budgets: experiments that differ in the model and its space.

Each model has the same number of random trials of the same length, judged by validation. The best one is trained longer
with other seeds and tested once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cornn import __version__
from cornn._arguments import ArgumentError, Setting
from cornn._checked import without_defaults
from cornn._json import read_json
from cornn._machine import device_for, machine
from cornn._source import check_source, source
from cornn.lab.config import list_changes
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.recipes import PUBLISHED, resolve
from cornn.lab.recipes.ranges import ENTRANTS, space
from cornn.lab.runs import write_json
from cornn.lab.tasks import HAR2, IMDB, Adding, NoisyCIFAR10, PermutedMNIST, SequentialMNIST

TRIAL_SEED = 0
"""All trials share their split, and their first weights where the model is the same."""


@dataclass(frozen=True)
class Contest:
    """A comparison on one task. Lengths are in steps or in epochs."""

    name: str
    task: Any
    recipe: str  # of the task: what all models share
    starts: Mapping[str, str]  # start of an entrant, if it is not the usual one -> recipe
    unit: str  # "steps" or "epochs"
    trial: int  # length of a trial
    final: int  # length of a run
    hidden_size: int | None  # None: that of each model in the paper's table
    entrants: tuple[str, ...]
    trials: int = 12
    seeds: int = 3  # number of runs with the settings of the best trial, with the seeds 1, 2, ...
    until: float = 0.0  # a run stops once its validation reaches this value
    shared: Mapping[str, Any] = field(default_factory=dict)  # settings of all models that replace the recipe's

    @property
    def size(self) -> str:
        """The number of neurons, as text."""
        return "the paper's numbers of neurons" if self.hidden_size is None else f"{self.hidden_size} neurons"

    @property
    def comparable_settings(self) -> dict[str, Any]:
        """The settings that must be equal for rows to be comparable."""
        sizes = {size: getattr(self, size) for size in ("unit", "trial", "final", "hidden_size")}
        return {"task": {"name": self.task.name, **without_defaults(self.task)}, **sizes, **self.shared}

    def experiment(self, entrant: str, **place: Any) -> Experiment:
        """Return the experiment of one model.

        For all models the learning rate decreases to 0 along a cosine, and the weights with the best validation are
        kept.
        """
        model = ENTRANTS[entrant]
        start = resolve(self.task.name, self.starts.get(model.start, self.recipe))
        base = replace(start, task=self.task).override(
            model=model.model,
            schedule="cosine",
            drop_after=0,
            warm_up=0,
            keep="best",
            until=0.0,
            seed=TRIAL_SEED,
            hidden_size=self.hidden_size or self._published_size(model.title),
            **{self.unit: self.trial},
            **self.shared,
            **{name: value for name, value in place.items() if value is not None},
        )
        return Experiment(
            f"{self.name}-{entrant}",
            base,
            space(self.task.name, entrant),
            self.trials,
            {self.unit: self.final, "until": self.until},
            tuple(range(1, self.seeds + 1)),
            stream=("compare", self.name, entrant),
        )

    def _published_size(self, title: str) -> int:
        """Return the largest number of units of a model in the paper's table of the task."""
        return max(row.units for row in PUBLISHED[self.task.name] if row.model == title)

    def experiments(self, **place: Any) -> dict[str, Experiment]:
        """Return the experiments of all models by name. `place`: device and data."""
        return {entrant: self.experiment(entrant, **place) for entrant in self.entrants}


# Other networks of oscillators.
_OSCILLATORS = ("horn", "unicornn", "linoss", "d-linoss")
_COMMON = ("cornn", "cornn-memory", "lstm", "gru", "tanh-rnn", "fastrnn", "antisymmetric", "exprnn")
# LEM takes longest, so it comes last.
_ADDING = (*_COMMON, *_OSCILLATORS, "lem")
# expRNN has its authors' RMSprop.
_ADAM = tuple(name for name in _ADDING if name != "exprnn")
# LinOSS and D-LinOSS take as long as all others together.
_ADAM_FAST = tuple(name for name in _ADAM if name not in ("linoss", "d-linoss"))
_PSMNIST = (
    *("cornn-ringing", *_COMMON, "fastgrnn", "gated-antisymmetric", "lipschitz", "dtriv"),
    *(*_OSCILLATORS, "lem"),
)
# The rows of the paper's table except the incremental network, which is slow; and underdamped neurons.
_NOISY_CIFAR10 = (
    *("cornn", "cornn-ringing", "lstm", "fastrnn", "antisymmetric", "gated-antisymmetric", "lipschitz"),
    *_OSCILLATORS,
)
_SLOW = (
    *("cornn", "cornn-memory", "cornn-ringing", "lstm", "skip-lstm", "skip-gru", "incremental", "unitary"),
    *_OSCILLATORS,
)
# The rows of the paper's tables, the slowest first; and underdamped neurons.
_SMNIST = ("unitary", "cornn", "cornn-ringing", "lstm", "gru", "antisymmetric", "fastgrnn", "dtriv")
_IMDB = ("skip-lstm", "skip-gru", "relu-gru", "lstm", "gru", "cornn")

# The networks of the paper's figure on adding.
_ADDING_FIGURE = ("cornn", "fastrnn", "antisymmetric", "exprnn", "tanh-rnn")
_HAR2 = tuple(name for name in ENTRANTS if name != "relu-gru")  # relu-gru is only in the paper's table of IMDB

_STARTS = {"memory": "memory", "ringing": "ringing"}
_LARGE = {"batch_size": 500}


def _adding(
    length: int,
    trial: int,
    final: int,
    entrants: tuple[str, ...] = _ADDING,
    suffix: str = "",
    seeds: int = 3,
    **shared: Any,
) -> Contest:
    name = "-".join(["adding", str(length), *shared]) + suffix
    sizes = ("steps", trial, final, 128)
    start = {"memory": "ours"}
    return Contest(*(name, Adding(length), "paper", start, *sizes, entrants), seeds=seeds, until=0.008, shared=shared)


CONTESTS = {
    "adding-500": _adding(500, 1000, 3000),
    "har2": Contest("har2", HAR2(), "paper", _STARTS, "epochs", 25, 100, 64, _HAR2),
    # The rows of the paper's table with their sizes and epochs.
    "har2-paper": Contest(
        *("har2-paper", HAR2(), "paper", {}, "epochs", 25, 250, None),
        ("cornn", "fastrnn", "fastgrnn", "antisymmetric", "lstm", "gru", "incremental"),
    ),
    "psmnist": Contest("psmnist", PermutedMNIST(), "paper-128", _STARTS, "epochs", 2, 20, 128, _PSMNIST),
    # The rows of the paper's table with 128 units whose whole training takes two minutes on a GPU.
    "psmnist-long": Contest(
        *("psmnist-long", PermutedMNIST(), "paper-128", _STARTS, "epochs", 2, 120, 128),
        ("antisymmetric", "fastgrnn", "cornn"),
    ),
    # The rows of the paper's table with more units. uRNN is slow. A run of an LSTM takes ten minutes on a GPU.
    "psmnist-paper": Contest(
        *("psmnist-paper", PermutedMNIST(), "paper", {}, "epochs", 2, 120, None),
        ("cornn", "dtriv", "gru", "lstm"),
        trials=6,
        seeds=1,
    ),
    "noisy-cifar10": Contest(
        "noisy-cifar10", NoisyCIFAR10(), "paper", {"ringing": "ringing"}, "epochs", 2, 10, 128, _NOISY_CIFAR10, trials=8
    ),
    # The rows of the paper's table with its sizes and epochs, except the incremental network, which is slow.
    "noisy-cifar10-paper": Contest(
        *("noisy-cifar10-paper", NoisyCIFAR10(), "paper", {}, "epochs", 2, 120, None),
        ("cornn", "fastrnn", "antisymmetric", "gated-antisymmetric", "lipschitz", "lstm"),
        trials=6,
        seeds=1,
    ),
    # Half an epoch and two. A network that is computed step by step takes about as long for 500 sequences as for 120.
    "psmnist-short": Contest(
        "psmnist-short", PermutedMNIST(), "paper-128", _STARTS, "steps", 57, 228, 128, _SLOW, trials=6, shared=_LARGE
    ),
    # A third of an epoch and one, for all rows of the paper's table. uRNN takes 0.26 s per training step.
    "smnist": Contest(
        "smnist", SequentialMNIST(), "paper-128", _STARTS, "steps", 38, 114, 128, _SMNIST, trials=4, shared=_LARGE
    ),
    # The rows whose trainings take less than two minutes on a GPU, for ten epochs: LSTM and GRU learn nothing in one.
    "smnist-long": Contest(
        *("smnist-long", SequentialMNIST(), "paper-128", _STARTS, "epochs", 1, 10, 128),
        ("cornn", "cornn-ringing", "antisymmetric", "fastgrnn", "dtriv", "lstm", "gru"),
        trials=6,
    ),
    "noisy-cifar10-short": Contest(
        *("noisy-cifar10-short", NoisyCIFAR10(), "paper", {"ringing": "ringing"}, "steps", 31, 94, 128),
        ("incremental", "cornn", "cornn-ringing"),
        trials=4,
        shared=_LARGE,
    ),
    # The first 100 words of each review: batches of 500 then have the same length.
    "imdb": Contest("imdb", IMDB(longest=100), "paper", {}, "epochs", 2, 8, 128, _IMDB, trials=4, shared=_LARGE),
    # Adam's beta2 as in our recipe for all.
    "adding-500-beta2": _adding(500, 1000, 3000, _ADAM, beta2=0.99),
    "adding-2000": _adding(2000, 600, 2000),
    "adding-2000-beta2": _adding(2000, 600, 2000, _ADAM_FAST, beta2=0.99),
    "adding-5000": _adding(5000, 400, 1500),
    "adding-5000-beta2": _adding(5000, 400, 1500, _ADAM_FAST, beta2=0.99),
    # For at most as many steps as the paper's training at length 5,000. Longer sequences take minutes per run.
    "adding-500-long": _adding(500, 1000, 60_000, _ADDING_FIGURE, suffix="-long"),
    "adding-2000-long": _adding(2000, 600, 60_000, _ADDING_FIGURE, suffix="-long", seeds=1),
    "adding-5000-long": _adding(5000, 400, 60_000, _ADDING_FIGURE, suffix="-long", seeds=1),
}
"""Name -> contest, in order of priority."""


def select_contests(contests: Sequence[str], models: Sequence[str] = (), **changes: int | None) -> list[Contest]:
    """Return the contests with the given names ("all" for all), restricted to the given entrants, if any.

    `changes` are numbers of trials and of seeds, and lengths of a trial and of a run, unless None.
    """
    for names, choices, what in ((contests, ("all", *CONTESTS), "contest"), (models, tuple(ENTRANTS), "model")):
        for name in names:
            if name not in choices:
                raise ValueError(f"unknown {what} {name!r}: choose from {', '.join(choices)}")
    overrides = {name: value for name, value in changes.items() if value is not None}
    for name, value in overrides.items():
        if value < 1:
            raise ArgumentError(Setting(name), f" must be above 0, got {value}")
    selected = [CONTESTS[name] for name in CONTESTS if name in contests or "all" in contests]
    contests_with_overrides = [replace(contest, **overrides) for contest in selected]
    if not models:
        return contests_with_overrides
    restricted = [
        replace(candidate, entrants=tuple(name for name in candidate.entrants if name in models))
        for candidate in contests_with_overrides
    ]
    for name in models:
        if not any(name in candidate.entrants for candidate in restricted):
            raise ValueError(
                f"{name} takes no part in {', '.join(candidate.name for candidate in restricted)}: choose another model"
            )
    return [candidate for candidate in restricted if candidate.entrants]


def _path(contest: Contest, results: Path) -> Path:
    return results / "compare" / f"{contest.name}.json"


def check_record(contest: Contest, results: Path) -> None:
    """Reject a contest whose record has another budget, or more trials or runs: its rows would not be comparable."""
    path = _path(contest, results)
    if path.exists():
        recorded = read_json(path)
        settings = contest.comparable_settings
        changed = list_changes({name: recorded[name] for name in settings if name in recorded}, settings)
        for what, rows, now in (("trials", "trials", contest.trials), ("seeds", "finals", contest.seeds)):
            recorded_count = max((len(row[rows]) for row in recorded.get("models", {}).values()), default=0)
            changed += [f"{what} was {recorded_count}, is {now}"] if recorded_count > now else []
        if changed:
            raise ValueError(f"{path} belongs to another comparison ({'; '.join(changed)}): choose another --results")


def check_trials(statuses: Iterable[Status]) -> None:
    """Reject experiments with more trials than the contest gives each model: the best of more is no fair comparison."""
    for status in statuses:
        name, trials = status.experiment.name, status.experiment.trials
        if status.done > trials:
            problem = f"the storage has {status.done} trials of {name}, the contest {trials}: use at least "
            raise ArgumentError(problem, Setting("trials", status.done), ", or another folder")


def write_record(contest: Contest, statuses: Mapping[str, Status], results: Path, workers: int = 1) -> Path | None:
    """Write the record of a contest from the statuses of its entrants' experiments.

    Models keep their rows if they are not in `statuses`, or if the rows have more trials or runs than the statuses,
    such as those of a new database. `workers` is the number of processes on this machine.
    """
    check_record(contest, results)
    path = _path(contest, results)
    recorded = read_json(path) if path.exists() else {}
    rows = recorded.get("models", {})
    updates = {
        entrant: status
        for entrant, status in statuses.items()
        if status.done and (entrant not in rows or not _has_more(rows[entrant], status))
    }
    if not updates:
        return None
    first = next(iter(updates.values()))
    origin = {"machine": machine(), "device": device_for(first.experiment.base.place.device), **source()}
    origin |= {"version": __version__, "workers": workers}
    machines = [*recorded.get("machines", ()), *([origin] if origin not in recorded.get("machines", ()) else ())]
    content = {
        "contest": contest.name,
        **contest.comparable_settings,
        "metric": first.task.metric,
        "better": first.task.better,
        "solved": first.task.solved,
        "machines": machines,
        "models": rows | {entrant: _describe_model(status) for entrant, status in updates.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content, indent=None)
    return path


def _has_more(row: Mapping[str, Any], status: Status) -> bool:
    """Return whether a row of a record has more trials or runs than a status."""
    return len(row["trials"]) > status.done or len(row["finals"]) > len(status.runs)


def _describe_model(status: Status) -> dict[str, Any]:
    """Return the row of a model: its space, its trials and its runs."""
    sizes = [run["parameters"] for run in status.runs if "parameters" in run]
    final = ("seed", "test", "validation", "steps", "epochs", "seconds", "failed", "curve", "commit", "digest")
    return {
        "space": {name: str(draw) for name, draw in status.experiment.space.items()},
        "parameters": sizes[0] if sizes else None,
        "hidden_size": status.experiment.base.model.hidden_size,
        "chosen": None if status.best is None else status.best["trial"],
        "trials": [_describe_trial(row) for row in status.rows if row["state"] != "running"],
        "finals": [_with_source({name: run[name] for name in final if name in run}) for run in status.runs],
    }


def _describe_trial(row: Mapping[str, Any]) -> dict[str, Any]:
    entry = {name: row[name] for name in ("trial", "values", "validation", "steps", "seconds")}
    return _with_source(entry | ({"failed": row["failure"]} if row["failure"] else {}) | row.get("source", {}))


def _with_source(row: dict[str, Any]) -> dict[str, Any]:
    """Add whether the commit of a row contains the code that produced it."""
    return row | {"source": check_source(row)}
