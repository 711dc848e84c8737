"""Experiments: trials that choose settings by validation, and runs that are tested.

    experiment   a base configuration, a space, and how many trials and runs it has
    trial        a training with settings from the space, judged by validation; its number determines its settings
    run          a training with a seed and the chosen settings, tested once
    record       the result of a run, in results/

A search has a space and no runs, a reproduction has seeds and no space, a comparison is a list of experiments with the
same budget.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cornn._arguments import ArgumentError, Setting
from cornn._random import generator
from cornn.lab.config import RivalSpec, Train, canonical
from cornn.lab.recipes.ranges import Draw


@dataclass(frozen=True)
class Experiment:
    """Trials and runs around one configuration.

    Args:
        name: Name of the experiment in its storage.
        base: The configuration of a trial.
        space: Setting -> distribution of its values.
        trials: Number of trials.
        finals: Settings of the runs that differ from those of the trials, such as the number of epochs.
        seeds: Seeds of the runs.
        prune: Whether to stop trials that are worse than the median of the others.
        stream: What the random values of the space depend on, in addition to the seed and the number of a trial.
    """

    name: str
    base: Train
    space: Mapping[str, Draw] = field(default_factory=dict)
    trials: int = 0
    finals: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    prune: bool = False
    stream: tuple[str, ...] = ("search",)

    def __post_init__(self) -> None:
        if self.space and self.trials < 1:
            raise ArgumentError(Setting("trials"), f" must be above 0, got {self.trials}")
        if not self.space and self.trials:
            raise ValueError("all searchable settings are given as options: omit at least one")
        if not self.trials and not self.seeds:
            raise ValueError(f"the experiment {self.name} has neither trials nor seeds")
        if len(set(self.seeds)) < len(self.seeds):
            raise ArgumentError(Setting("seeds"), f" must be distinct, got {list(self.seeds)}")
        if self.base.place.devices > 1 or int(os.environ.get("WORLD_SIZE", 1)) > 1:
            raise ValueError("a worker is one process on one device: start the command once per device")

    def values(self, trial: int) -> dict[str, Any]:
        """Return the settings of a trial. They do not depend on the worker that takes it."""
        random = generator(self.base.seed, *self.stream, trial)
        return {setting: draw.draw(random) for setting, draw in self.space.items()}

    def trial_config(self, values: Mapping[str, Any]) -> Train:
        """Return the configuration of a trial. The theory is for runs that leave a record."""
        return replace(self._with(values), theory=False)

    def run_config(self, values: Mapping[str, Any], seed: int) -> Train:
        """Return the configuration of a run with the chosen settings."""
        return self._with(values).override(**self.finals, seed=seed)

    def _with(self, values: Mapping[str, Any]) -> Train:
        model = self.base.model
        layer_options = model.constants if isinstance(model, RivalSpec) else {}
        settings = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        constants = {name: settings.pop(name) for name in values if name in layer_options}
        return self.base.override(**settings, **({"layer": constants} if constants else {}))

    @property
    def shared_settings(self) -> dict[str, Any]:
        """The settings that all trials and runs of an experiment share. Their numbers may grow."""
        space = {name: str(draw) for name, draw in self.space.items()}
        return {"config": canonical(self.base), "space": space, "finals": dict(self.finals), "prune": self.prune}
