"""The paper's experiments as a plan of runs: what is to be run, what has a record already, and the running of the rest.

A record under results/ is all that is asked about a run, so that a plan can be stopped at any point and gone on with,
also on another machine. A run that fails leaves a record of its failure.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cornn._machine import device_for, machine
from cornn._source import source
from cornn.lab import records
from cornn.lab.config import Train, as_dictionary
from cornn.lab.recipes import RECIPES, resolve
from cornn.lab.runs import Run
from cornn.lab.training import Diverged, Watch, fit_or_resume, fit_seeds, holds_seeds, read_seeds, resume_seeds

__all__ = ["TARGETS", "Planned", "complete", "missing", "plan", "seconds_a_run"]


@dataclass(frozen=True)
class Planned:
    """Runs that differ in nothing but their seed."""

    config: Train
    seeds: int

    @property
    def name(self) -> str:
        """The file name of the records, without seed and identity."""
        return records.name(self.config).rsplit("-seed", 1)[0]


WINDOWS = {"validation": "random", "test": "windows"}
"""Options of HAR-2 that give the paper's results."""


def _adding() -> list[Planned]:
    runs = [resolve("adding", "paper", length=length, steps=20_000) for length in (500, 2000, 5000)]
    return [Planned(config, 3) for config in runs]


def _mnist(task: str) -> list[Planned]:
    return [Planned(resolve(task, recipe), 5) for recipe in ("paper", "paper-128")]


def _noisy_cifar10() -> list[Planned]:
    fresh = [Planned(resolve("noisy-cifar10", noise=noise), 1) for noise in ("fresh-normal", "fresh-uniform")]
    return [Planned(resolve("noisy-cifar10"), 5), *fresh]


def _har2() -> list[Planned]:
    known = [resolve("har2", recipe, **WINDOWS) for recipe in ("paper", "paper-tiny")]
    new = [resolve("har2", recipe) for recipe in ("paper", "paper-tiny")]
    return [Planned(config, 10) for config in (*new, *known)]


def _lorenz96() -> list[Planned]:
    """The rate of each model is the best of one grid, by validation at that force (results/lorenz96-rates*.json)."""
    runs = (
        resolve("lorenz96", "ours-cycle"),
        resolve("lorenz96"),
        resolve("lorenz96", "ours-cycle-lstm"),
        resolve("lorenz96", model="lstm", hidden_size=44),
    )
    return [Planned(config, 3) for config in runs]


def _distribution() -> list[Planned]:
    options: dict[str, dict] = {"smnist": {}, "psmnist": {}, "noisy-cifar10": {}, "har2": WINDOWS, "imdb": {}}
    return [Planned(resolve(task, **own), 10) for task, own in options.items()]


def _weights() -> list[Planned]:
    runs = (("smnist", "paper-128"), ("noisy-cifar10", "paper"), ("har2", "paper"))
    return [Planned(resolve(task, recipe, theory=True), 1) for task, recipe in runs]


def _memory() -> list[Planned]:
    """Beyond the paper: our recipe for long memory, beside it LEM with its authors' values; and what the start and the
    constants of that recipe do to the paper's tasks, and neurons that ring."""
    lengths = [Planned(resolve("adding", length=length), 5) for length in (500, 2000, 5000, 20_000)]
    lengths += [
        Planned(resolve("adding", "paper", length=length, model="lem", steps=4000), 1) for length in (500, 2000, 5000)
    ]
    tasks = ("har2", "smnist", "psmnist")
    elsewhere = [Planned(resolve(task, recipe), 1) for recipe in ("memory", "ringing") for task in tasks]
    return [*lengths, *elsewhere]


def _better() -> list[Planned]:
    """Beyond the paper: higher accuracy at the same size. psMNIST also with another permutation for every seed, so that
    the result is not that of one permutation."""
    recipes = [(task, name) for task, own in RECIPES.items() for name, one in own.items() if one.origin == "better"]
    runs = [(task, recipe, {}) for task, recipe in recipes]
    runs += [(task, recipe, {"permutation": "own"}) for task, recipe in recipes if task == "psmnist"]
    return [Planned(resolve(task, recipe, **options), 5) for task, recipe, options in runs]


def _ablation() -> list[Planned]:
    """The grid of the figure, whose axes are printed swapped."""
    gammas, epsilons = (0.8, 1.05, 1.3, 1.55, 1.8), (5.7, 8.7, 11.7, 14.7, 17.7)
    grid = [(gamma, epsilon) for gamma in gammas for epsilon in epsilons]
    return [Planned(resolve("noisy-cifar10", gamma=gamma, epsilon=epsilon), 1) for gamma, epsilon in grid]


def _variants() -> list[Planned]:
    """What the paper says makes little difference: the damping, and whether dt, gamma and epsilon are trained."""
    runs = []
    for task, recipe in (("smnist", "paper-128"), ("har2", "paper")):
        runs.append(resolve(task, recipe, damping="implicit"))
        runs.append(resolve(task, recipe, trainable=("dt", "gamma", "epsilon")))
    return [Planned(config, 3) for config in runs]


TARGETS: dict[str, Callable[[], list[Planned]]] = {
    "har2": _har2,
    "adding": _adding,
    "smnist": lambda: _mnist("smnist"),
    "psmnist": lambda: _mnist("psmnist"),
    "noisy-cifar10": _noisy_cifar10,
    "imdb": lambda: [Planned(resolve("imdb", read_at=read_at), 3) for read_at in ("end", "padding")],
    "lorenz96": _lorenz96,
    "memory": _memory,
    "better": _better,
    "weights": _weights,
    "variants": _variants,
    "distribution": _distribution,
    "ablation": _ablation,
    "heuristics": list,
}
"""Name -> its runs, in the order in which they are worth running. Of the heuristics there is a figure alone."""


def plan(targets: Sequence[str], seeds: int | None = None, **place: str | None) -> list[Planned]:
    """The runs of these targets ("all" for every one), none twice; `seeds` in place of each one's own number.

    place: device and data of the runs.
    """
    unknown = [target for target in targets if target not in (*TARGETS, "all")]
    if unknown:
        raise ValueError(f"unknown target {unknown[0]!r}: choose from all, {', '.join(TARGETS)}")
    names = TARGETS if "all" in targets else targets
    wanted: dict[str, Planned] = {}
    for name in names:
        for planned in TARGETS[name]():
            config = planned.config.override(**{key: value for key, value in place.items() if value is not None})
            same = records.identity(config)
            before = wanted.get(same)
            count = max(seeds or planned.seeds, before.seeds if before else 0)
            wanted[same] = Planned(config, count)
    return list(wanted.values())


def missing(planned: Planned, results: Path) -> list[int]:
    """The seeds that have no record yet."""
    runs = [replace(planned.config, seed=seed) for seed in range(planned.seeds)]
    return [config.seed for config in records.missing(results, runs)]


def seconds_a_run(planned: Planned, results: Path) -> float | None:
    """How long one of these runs took where it was recorded, or None."""
    done = [record["result"] for record in _records(planned, results) if "test" in record["result"]]
    return statistics.fmean(result["seconds"] / result["side_by_side"] for result in done) if done else None


def _records(planned: Planned, results: Path) -> list[dict]:
    same = records.group_identity(planned.config)
    found = records.read(results, planned.config.task.name)
    return [one for one in found if records.group_identity(records.read_config(one)) == same]


def complete(planned: Planned, results: Path, folder: Path, watch: Watch) -> list[Path]:
    """Run the seeds that have no record, under `folder`, and write their records; of those that diverge too."""
    seeds = missing(planned, results)
    runs, failures = _trained(planned.config, seeds, folder / planned.config.task.name / planned.name, watch)
    written = [records.write(records.record(run), results) for run in runs if run.config["seed"] in seeds]
    where = {"machine": machine(), "device": device_for(planned.config.place.device), **source()}
    for seed in set(seeds) & failures.keys():
        config = as_dictionary(replace(planned.config, seed=seed))
        content = {"config": config, "result": {"failed": failures[seed], **where}, "curve": {}}
        written.append(records.write(content, results))
    return written


def _trained(config: Train, seeds: Sequence[int], place: Path, watch: Watch) -> tuple[list[Run], dict[int, str]]:
    """The runs of these seeds that came to their end, and why the others did not.

    A folder with some of the seeds is resumed, and the others get a folder next to it.
    """
    held = read_seeds(place)[1] if holds_seeds(place) else []
    summary: dict = {}
    try:
        if held:
            summary, runs = resume_seeds(place, watch)
        elif len(seeds) > 1:
            summary, runs = fit_seeds(config, seeds, place, watch)
        else:
            runs = [fit_or_resume(replace(config, seed=seeds[0]), place / f"seed-{seeds[0]}", watch)]
        failures = {int(seed): why for seed, why in summary.get("failures", {}).items()}
    except Diverged as error:
        runs, failures = [], dict.fromkeys(held or seeds, str(error))
    found = [run for run in runs if run.result is not None]
    further = [seed for seed in seeds if held and seed not in held]
    if further:
        more, failed = _trained(config, further, place.with_name(f"{place.name}-further"), watch)
        return found + more, failures | failed
    return found, failures
