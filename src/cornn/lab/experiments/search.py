"""Random search: an experiment with a space and without runs, judged by validation only."""

from collections.abc import Collection
from pathlib import Path

from cornn import __version__
from cornn._machine import machine
from cornn._source import source
from cornn.lab.config import CoRNNSpec, Train, as_dictionary
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.experiments.storage import Storage, hide_password
from cornn.lab.recipes import RANGES
from cornn.lab.recipes.ranges import Between
from cornn.lab.runs import write_json

OURS = {
    "lorenz96": {"learning_rate": (1e-4, 1e-1), "dt": (1e-2, 1.0), "gamma": (1e-1, 10.0), "epsilon": (1e-1, 10.0)},
}
"""Task -> setting -> (lowest, highest), where the paper has no ranges."""
OTHER_MODELS = {"learning_rate": (1e-4, 1e-1)}
"""Ranges of models other than coRNN, which have none of its constants."""


def ranges(base: Train) -> dict[str, tuple[float, float]]:
    """Return the ranges {setting: (lowest, highest)}. With half-lives or periods, gamma is not searched."""
    task, model = base.task.name, base.model
    if not isinstance(model, CoRNNSpec):
        return dict(OTHER_MODELS)
    all_ranges = RANGES.get(task) or OURS.get(task)
    if all_ranges is None:
        raise ValueError(f"the task {task} has no ranges: choose one of {', '.join(RANGES | OURS)}")
    return {name: ends for name, ends in all_ranges.items() if name != "gamma" or model.gamma is not None}


def make_search(
    base: Train, trials: int, *, name: str | None = None, given: Collection[str] = (), prune: bool = False
) -> Experiment:
    """Return a random search around a configuration. Settings that the user gave are not searched.

    The default name consists of task, model and number of neurons.
    """
    space = {setting: Between(*ends) for setting, ends in ranges(base).items() if setting not in given}
    name = name or f"{base.task.name}-{base.model.name}-{base.model.hidden_size}"
    return Experiment(name, base, space, trials, prune=prune)


def write_search(status: Status, storage: Storage, out: Path) -> tuple[Path, Path]:
    """Write best.json, for `cornn train --config`, and trials.json, and return their paths."""
    experiment, best, trials = status.experiment, out / "best.json", out / "trials.json"
    out.mkdir(parents=True, exist_ok=True)
    origin = {"version": __version__, "machine": machine()}
    about = {"storage": hide_password(storage.url), "study": experiment.name, "better": status.task.better}
    about |= {"prune": experiment.prune, "config": as_dictionary(experiment.base), **source(), **origin}
    about["space"] = {name: str(draw) for name, draw in experiment.space.items()}
    write_json(trials, {**about, "trials": list(status.rows)})
    if status.best is None:
        reasons = [row["failure"] for row in status.rows if row["failure"]]
        last = f"; the last: {reasons[-1]}" if reasons else ""
        raise RuntimeError(f"none of the {status.done} trials finished{last} (list: {trials})")
    summary = {"study": experiment.name, "trials": status.done, "trial": status.best["trial"]}
    summary |= {"validation": status.best["validation"], "searched": sorted(experiment.space)}
    config = experiment.trial_config(status.best["values"])
    write_json(best, {**as_dictionary(config), **origin, "search": summary})
    return best, trials
