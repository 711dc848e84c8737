"""The specification of a search: ranges of settings around a configuration."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass

from cornn._extras import missing_extra
from cornn.lab.config import CoRNNSpec, Train
from cornn.lab.recipes import RANGES

__all__ = ["Search", "check", "configuration", "hidden", "space"]

OURS = {
    "lorenz96": {"learning_rate": (1e-4, 1e-1), "dt": (1e-2, 1.0), "gamma": (1e-1, 10.0), "epsilon": (1e-1, 10.0)},
}
"""Task -> setting -> (lowest, highest), where the paper has no ranges."""
OTHER_MODELS = {"learning_rate": (1e-4, 1e-1)}
"""Ranges of models other than coRNN, which have none of its constants."""

HEARTBEAT = 30
"""Seconds between two heartbeats of a worker."""


@dataclass(frozen=True)
class Search:
    """A random search. All trials use the configuration `base` with the settings of `space` drawn at random."""

    base: Train
    space: Mapping[str, tuple[float, float]]  # setting -> lowest, highest; drawn log-uniformly
    trials: int  # that are done in the end, by all workers
    study: str
    storage: str  # a URL
    prune: bool = False
    heartbeat: int = HEARTBEAT


def space(base: Train) -> dict[str, tuple[float, float]]:
    """Return the ranges {setting: (lowest, highest)}. With half-lives or periods, gamma is not searched."""
    task, model = base.task.name, base.model
    if not isinstance(model, CoRNNSpec):
        return dict(OTHER_MODELS)
    ranges = RANGES.get(task) or OURS.get(task)
    if ranges is None:
        raise ValueError(f"the task {task} has no ranges: choose one of {', '.join(RANGES | OURS)}")
    return {name: ends for name, ends in ranges.items() if name != "gamma" or model.gamma is not None}


def check(plan: Search) -> None:
    """Validate a search before touching the disk."""
    if importlib.util.find_spec("optuna") is None:
        raise missing_extra("search", "a search needs optuna")
    hidden(plan.storage)
    if plan.trials < 1:
        raise ValueError(f"trials must be above 0, got {plan.trials}")
    if not plan.space:
        raise ValueError("all searchable settings are given as options: omit at least one")
    if plan.base.place.devices > 1 or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError("a search worker is one process on one device: start the command once per device")


def configuration(plan: Search, values: Mapping[str, float]) -> Train:
    """Return the configuration of a trial with these values."""
    return plan.base.override(**values)


def hidden(url: str) -> str:
    """Return the URL of a storage without its password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        raise ValueError(
            f"{url!r} is not a storage: give a URL such as sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        ) from None
