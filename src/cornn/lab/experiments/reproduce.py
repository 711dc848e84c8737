"""The paper's experiments, and ours beyond it: experiments with seeds and without a space.

Only records under results/ decide which runs are missing, so that a plan can be stopped at any point and continued,
also on another machine. A run that fails leaves a record of its failure.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cornn._arguments import ArgumentError, Setting, choose
from cornn._machine import device_for, machine
from cornn._source import source
from cornn.lab import records
from cornn.lab.config import Train, as_dictionary
from cornn.lab.experiments.spec import Experiment
from cornn.lab.recipes import RECIPES, WINDOWS, resolve
from cornn.lab.runs import Run


def _runs(config: Train, seeds: int | tuple[int, ...]) -> Experiment:
    """Return the runs of a configuration with the given seeds, or with that many: 0, 1, ..."""
    name = f"{config.task.name}-{records.group_name(config)}-{records.group_identity(config)[:8]}"
    return Experiment(name, config, seeds=tuple(range(seeds)) if isinstance(seeds, int) else seeds)


def _adding() -> list[Experiment]:
    runs = [resolve("adding", "paper", length=length, steps=20_000) for length in (500, 2000, 5000)]
    return [_runs(config, 3) for config in runs]


def _mnist(task: str) -> list[Experiment]:
    return [_runs(resolve(task, recipe), 5) for recipe in ("paper", "paper-128")]


def _noisy_cifar10() -> list[Experiment]:
    new_noise = [_runs(resolve("noisy-cifar10", noise=noise), 1) for noise in ("fresh-normal", "fresh-uniform")]
    return [_runs(resolve("noisy-cifar10"), 5), *new_noise]


def _har2() -> list[Experiment]:
    with_known_people = [resolve("har2", recipe, **WINDOWS) for recipe in ("paper", "paper-tiny")]
    with_new_people = [resolve("har2", recipe) for recipe in ("paper", "paper-tiny")]
    return [_runs(config, 10) for config in (*with_new_people, *with_known_people)]


def _lorenz96() -> list[Experiment]:
    """Return the runs of Lorenz-96, with the best rate of a grid by validation (results/lorenz96-rates*.json)."""
    runs = (
        resolve("lorenz96", "ours-cycle"),
        resolve("lorenz96"),
        resolve("lorenz96", "ours-cycle-lstm"),
        resolve("lorenz96", model="lstm", hidden_size=44),
    )
    return [_runs(config, 3) for config in runs]


def _distribution() -> list[Experiment]:
    options: dict[str, dict] = {"smnist": {}, "psmnist": {}, "noisy-cifar10": {}, "har2": WINDOWS, "imdb": {}}
    return [_runs(resolve(task, **overrides), 10) for task, overrides in options.items()]


def _weights() -> list[Experiment]:
    runs = (("smnist", "paper-128"), ("noisy-cifar10", "paper"), ("har2", "paper"))
    return [_runs(resolve(task, recipe, theory=True), 1) for task, recipe in runs]


def _memory() -> list[Experiment]:
    """Return runs beyond the paper: our recipe for long memory, compared with LEM with its authors' values; and the
    paper's tasks with the initial weights and constants of that recipe, and with underdamped neurons."""
    lengths = [_runs(resolve("adding", length=length), 5) for length in (500, 2000, 5000, 20_000)]
    lengths += [
        _runs(resolve("adding", "paper", length=length, model="lem", steps=4000), 1) for length in (500, 2000, 5000)
    ]
    tasks = ("har2", "smnist", "psmnist")
    elsewhere = [_runs(resolve(task, recipe), 1) for recipe in ("memory", "ringing") for task in tasks]
    return [*lengths, *elsewhere]


def _better() -> list[Experiment]:
    """Return the runs of the improved recipes. psMNIST is also run with another permutation for every seed, so that the
    result does not depend on one permutation."""
    recipes = [
        (task, name, recipe.seeds)
        for task, of_task in RECIPES.items()
        for name, recipe in of_task.items()
        if recipe.origin == "better"
    ]
    runs = [(task, name, seeds, {}) for task, name, seeds in recipes]
    runs += [(task, name, seeds, {"permutation": "own"}) for task, name, seeds in recipes if task == "psmnist"]
    return [_runs(resolve(task, name, **options), seeds) for task, name, seeds, options in runs]


def _ablation() -> list[Experiment]:
    """Return the grid of the figure, whose axes are swapped in the paper."""
    gammas, epsilons = (0.8, 1.05, 1.3, 1.55, 1.8), (5.7, 8.7, 11.7, 14.7, 17.7)
    grid = [(gamma, epsilon) for gamma in gammas for epsilon in epsilons]
    return [_runs(resolve("noisy-cifar10", gamma=gamma, epsilon=epsilon), 1) for gamma, epsilon in grid]


def _variants() -> list[Experiment]:
    """Return runs for claims of little difference: implicit damping, and trained dt, gamma and epsilon."""
    runs = []
    for task, recipe in (("smnist", "paper-128"), ("har2", "paper")):
        runs.append(resolve(task, recipe, damping="implicit"))
        runs.append(resolve(task, recipe, trainable=("dt", "gamma", "epsilon")))
    return [_runs(config, 3) for config in runs]


TARGETS: dict[str, Callable[[], list[Experiment]]] = {
    "har2": _har2,
    "adding": _adding,
    "smnist": lambda: _mnist("smnist"),
    "psmnist": lambda: _mnist("psmnist"),
    "noisy-cifar10": _noisy_cifar10,
    "imdb": lambda: [_runs(resolve("imdb", read_at=read_at), 3) for read_at in ("end", "padding")],
    "lorenz96": _lorenz96,
    "memory": _memory,
    "better": _better,
    "weights": _weights,
    "variants": _variants,
    "distribution": _distribution,
    "ablation": _ablation,
    "heuristics": list,
}
"""Name -> runs, in order of priority. The heuristics have a figure and no runs."""


def plan(targets: Sequence[str], seeds: int | None = None, **place: str) -> list[Experiment]:
    """Return the experiments of the given targets, or of "all", without duplicates; with another number of seeds."""
    for target in targets:
        choose("target", target, ("all", *TARGETS))
    if seeds is not None and seeds < 1:
        raise ArgumentError(Setting("seeds"), f" must be above 0, got {seeds}")
    experiments: dict[str, Experiment] = {}
    for name in TARGETS if "all" in targets else targets:
        for experiment in TARGETS[name]():
            chosen = experiment.seeds if seeds is None else _take_seeds(experiment.seeds, seeds)
            earlier = experiments.get(experiment.name)
            if earlier is not None and len(earlier.seeds) > len(chosen):
                chosen = earlier.seeds
            experiments[experiment.name] = replace(experiment, base=experiment.base.override(**place), seeds=chosen)
    return list(experiments.values())


def _take_seeds(seeds: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the first `count` of the seeds and the numbers after them."""
    return tuple(itertools.islice(itertools.chain(seeds, itertools.count(seeds[-1] + 1)), count))


def missing(experiment: Experiment, results: records.Results) -> tuple[int, ...]:
    """Return the seeds that have no record yet."""
    configs = [experiment.run_config({}, seed) for seed in experiment.seeds]
    return tuple(config.seed for config in records.missing(results, configs))


def check_recorded(experiment: Experiment, results: Path) -> None:
    """Raise an error unless all runs of an experiment whose queue is done have a record."""
    if unrecorded := missing(experiment, results):
        raise FileNotFoundError(
            f"{experiment.name} is done, but seeds {list(unrecorded)} have no record under {results}: copy the records "
            "of the worker that ran them, or choose another --folder or --storage to run them again"
        )


def seconds_per_run(experiment: Experiment, results: Path) -> float | None:
    """Return the mean duration of the recorded runs of an experiment, or None."""
    identity = records.group_identity(experiment.base)
    results_of_runs = [
        record["result"]
        for record in records.read(results, experiment.base.task.name)
        if "test" in record["result"] and records.group_identity(records.read_config(record)) == identity
    ]
    return (
        statistics.fmean(result["seconds"] / result["side_by_side"] for result in results_of_runs)
        if results_of_runs
        else None
    )


def record_runs(
    experiment: Experiment,
    runs: Sequence[Run],
    failures: Mapping[int, str],
    results: Path,
    about: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the records of runs, also of failed ones, {seed: reason}, and return their files. `about`: additional
    fields of the results."""
    contents = [records.record(run) for run in runs]
    origin = {"machine": machine(), "device": device_for(experiment.base.place.device), **source()}
    for seed, reason in failures.items():
        config = as_dictionary(experiment.run_config({}, seed))
        contents.append({"config": config, "result": {"failed": reason, **origin}})
    return [records.write({**record, "result": {**record["result"], **(about or {})}}, results) for record in contents]
