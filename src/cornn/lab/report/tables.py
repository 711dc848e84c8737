"""The paper's tables, with the results of our records."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cornn._machine import ran_on
from cornn.baselines import MODELS
from cornn.lab import intervals, records
from cornn.lab.config import CoRNNSpec, Train
from cornn.lab.recipes import PUBLISHED, RECIPES, Published
from cornn.lab.tasks import Lorenz96

ABLATION_UNITS = 128  # of the paper's ablation


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed."""

    task: str
    model: str
    units: int
    options: dict
    settings: dict  # settings that differ from the recipe
    records: tuple[dict, ...]  # records of the finished runs
    failed: int
    identity: str = ""  # shared by all runs

    @property
    def tests(self) -> list[float]:
        return [record["result"]["test"] for record in self.records]

    @property
    def origin(self) -> str | None:
        """The origin of the recipe, if it is not that of the task's first one."""
        recipe = RECIPES[self.task].get(self.settings.get("recipe", ""))
        return None if recipe is None else recipe.origin

    @property
    def better(self) -> str:
        return self.records[0]["result"]["better"]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.tests)

    @property
    def validation(self) -> float:
        """Mean validation result."""
        return statistics.fmean(record["result"]["validation"] for record in self.records)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.tests) if len(self.tests) > 1 else None

    @property
    def best(self) -> float:
        return max(self.tests) if self.better == "higher" else min(self.tests)

    @property
    def parameters(self) -> int:
        return self.records[0]["result"]["parameters"]

    @property
    def time(self) -> str:
        """Duration of a run, and the device."""
        result = self.records[0]["result"]
        side_by_side = f" for {result['side_by_side']} at once" if result["side_by_side"] > 1 else ""
        return f"{result['seconds']:.0f} s{side_by_side}, {ran_on(result)}"

    @property
    def case(self) -> str:
        """Options and settings that differ from the default."""
        return describe(self.options | self.settings)

    @property
    def mark(self) -> str:
        """A mark if a run does not come from the commit that it names."""
        return records.mark(record["result"] for record in self.records)

    @property
    def summary(self) -> str:
        """Mean of the finished runs and its 95 % confidence interval, as text, and how many runs failed."""
        failed = f" ({self.failed} failed)" if self.failed else ""
        return intervals.describe(self.tests, self.better, self.number) + self.mark + failed

    def number(self, value: float) -> str:
        return f"{value:.2f}" if self.better == "higher" else f"{value:.4f}"


def describe(changed: Mapping[str, object]) -> str:
    """Write settings with their values."""
    values = {name: ", ".join(map(str, x)) if isinstance(x, list) else x for name, x in changed.items()}
    return ", ".join(f"{name} {value}" for name, value in values.items())


def group_runs(results: records.Results, task: str) -> list[RunGroup]:
    """Read the records of a task and group those that differ only in the seed."""
    groups: dict[str, list[tuple[Train, dict]]] = {}
    for record in records.read(results, task):
        config = records.read_config(record)
        groups.setdefault(records.group_identity(config), []).append((config, record))
    run_groups = []
    for shared, group in groups.items():
        config = group[0][0]
        # Runs that also recorded the theory's assumptions are not additional seeds of the same group.
        theory = {"theory": "recorded"} if config.theory else {}
        tested = tuple(record for _, record in group if "test" in record["result"])
        run_groups.append(
            RunGroup(
                task,
                config.model.name,
                config.model.hidden_size,
                records.changed_options(config),
                _name_other_recipe(config) | records.changed_settings(config) | theory,
                tested,
                len(group) - len(tested),
                shared,
            )
        )
    return run_groups


def longest_runs(results: records.Results, task: str, recipe: str, **options: object) -> list[dict]:
    """Return the records of coRNN with a recipe and options of a task: for each seed, the one with most training steps.

    A run that was repeated with more steps, or to record the theory's assumptions, does not count twice.
    """
    longest: dict[int, tuple[int, dict]] = {}
    for record in records.read(results, task):
        config = records.read_config(record)
        values = {name: getattr(config.task, name) for name in options}
        if (config.recipe, config.model.name) != (recipe, "cornn") or values != options:
            continue
        steps = config.budget.steps or 0
        if config.seed not in longest or steps > longest[config.seed][0]:
            longest[config.seed] = (steps, record)
    return [record for _, record in longest.values()]


def ablation_grids(groups: Sequence[RunGroup]) -> dict[int, dict[tuple[float, float], list[float]]]:
    """Return the grids of runs of a task, with the paper's number of neurons, that differ in gamma and epsilon only.

    A grid is number of epochs -> (gamma, epsilon) -> test results, with several values of gamma and of epsilon.
    """
    allowed = {"gamma", "epsilon", "epochs", "drop_after"}
    grids: dict[int, dict[tuple[float, float], list[float]]] = {}
    for group in groups:
        settings = set(group.settings)
        if not group.records or group.options or group.units != ABLATION_UNITS:
            continue
        if not settings <= allowed or not settings & {"gamma", "epsilon"}:
            continue
        config = records.read_config(group.records[0])
        if isinstance(config.model, CoRNNSpec) and config.model.gamma is not None and config.budget.epochs:
            point = (config.model.gamma, config.model.epsilon)
            grids.setdefault(config.budget.epochs, {}).setdefault(point, []).extend(group.tests)
    return {
        epochs: grid
        for epochs, grid in sorted(grids.items())
        if all(len({point[i] for point in grid}) > 1 for i in (0, 1))
    }


def _name_other_recipe(config: Train) -> dict[str, str]:
    """Name the recipe if it has another origin than the task's first one; paper-128 and paper have the same."""
    recipes = RECIPES[config.task.name]
    first = next(iter(recipes.values()))
    same_origin = config.recipe in recipes and recipes[config.recipe].origin == first.origin
    return {} if same_origin else {"recipe": config.recipe}


@dataclass(frozen=True)
class Row:
    """A model with the published result and ours; either may be None."""

    model: str
    units: int
    published: Published | None
    ours: RunGroup | None


def rows(task: str, groups: Sequence[RunGroup]) -> list[Row]:
    """Return the table of a task: the paper's models first, then models that only we have run."""
    remaining = [group for group in groups if group.records and not group.settings]
    table = []
    for published in PUBLISHED.get(task, ()):
        matches = [group for group in remaining if _is_same_model(group, published)]
        table += [Row(published.model, published.units, published, group) for group in matches or [None]]
        remaining = [group for group in remaining if group not in matches]
    return table + [Row(MODELS[group.model].title, group.units, None, group) for group in remaining]


def _is_same_model(group: RunGroup, published: Published) -> bool:
    options = records.read_config(group.records[0]).task
    force = options.force if isinstance(options, Lorenz96) else None
    return (MODELS[group.model].title, group.units, force) == (published.model, published.units, published.force)
