"""Several seeds of one configuration: one run folder each, and a summary.

    seeds.json      the configuration and the seeds
    seed-0 ...      their run folders
    summary.json    mean, standard deviation, best and confidence interval

They are trained side by side if possible, else one after another, with the same results as alone, up to rounding.
"""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from cornn._atomic import TEMPORARY
from cornn._checksums import read_sealed_json, write_sealed_json
from cornn._json import naming
from cornn.artifacts import CONFIG, SEEDS
from cornn.lab.config import Train, as_dictionary, differences, from_dictionary, read_run_config
from cornn.lab.intervals import mean_interval
from cornn.lab.runs import Run, create, write_json
from cornn.lab.training.distributed import connect
from cornn.lab.training.fit import Diverged, Introduce, describe_run, silent
from cornn.lab.training.loop import Watch, train
from cornn.lab.training.side_by_side import fits_side_by_side
from cornn.lab.training.state import RunState, prepare


def fit_seeds(
    config: Train, seeds: Sequence[int], out: Path, watch: Watch = silent, introduce: Introduce | None = None
) -> tuple[dict, list[Run]]:
    """Train each of the seeds and return a summary and the runs."""
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be one or more distinct numbers, got {list(seeds)}")
    fabric = connect(config)
    out = fabric.broadcast(out)
    states = [prepare(replace(config, seed=seed), fabric) for seed in seeds]
    if fabric.is_global_zero:
        folders = (out, *(_folder(out, seed) for seed in seeds))
        if holds_seeds(out) or any((folder / CONFIG).exists() for folder in folders):
            raise FileExistsError(f"{out} already contains runs: choose another --out, or remove it")
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_sealed_json(out / SEEDS, {"seeds": list(seeds), "config": as_dictionary(config)})
        except OSError as error:
            raise OSError(f"cannot write the folder {out}: choose another with --out") from error
    if introduce is not None:
        introduce(states[0].task, states[0].model)
    return _conclude(_train(states, fabric, out, watch), seeds, fabric, out)


def holds_seeds(path: Path) -> bool:
    return (path / SEEDS).exists()


def resume_seeds(path: Path, watch: Watch = silent, device: str | None = None) -> tuple[dict, list[Run]]:
    """Resume all seeds that have not finished, on `device` in place of that of the configuration."""
    config, seeds = read_seeds(path)
    if device is not None:
        config = config.override(device=device)
    fabric = connect(config)
    return _conclude(_train_unfinished(config, seeds, fabric, path, watch), seeds, fabric, path)


def read_seeds(path: Path) -> tuple[Train, list[int]]:
    """Return the configuration and the seeds of a folder. Seeds name folders, so nothing else is accepted."""
    content = read_sealed_json(path / SEEDS)
    seeds = content.get("seeds")
    if not isinstance(seeds, list) or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise ValueError(
            f"{path / 'seeds.json'}: seeds must be whole numbers, at least 0, got {seeds!r}: the file is damaged or "
            "was edited"
        )
    with naming(path / SEEDS):
        return from_dictionary(content.get("config", {})), seeds


def train_seeds(
    config: Train, seeds: Sequence[int], out: Path, watch: Watch = silent
) -> tuple[list[Run], dict[int, str]]:
    """Train seeds under `out`, or continue their existing run folders.

    Returns:
        The runs that are complete, and {seed: reason} for those that failed.
    """
    failures = _train_unfinished(config, seeds, connect(config), out, watch)
    return [run for seed in seeds if (run := Run(_folder(out, seed))).complete], failures


def _folder(path: Path, seed: int) -> Path:
    return path / f"seed-{seed}"


def _train(states: Sequence[RunState], fabric: Any, out: Path, watch: Watch) -> dict[int, str]:
    """Train runs, side by side if possible, and return {seed: reason} for those that failed."""
    # Runs at the same step are trained together.
    by_step: dict[int, list[tuple[RunState, dict | None]]] = {}
    failures: dict[int, str] = {}
    folders = [_folder(out, state.config.seed) for state in states]
    side_by_side = fabric.world_size == 1 and fits_side_by_side(states, fabric.device)
    with ExitStack() as stack:
        if fabric.is_global_zero:  # another process must not save in between
            for folder in folders:
                if (folder / CONFIG).exists():
                    stack.enter_context(Run(folder).lock())
        checkpoints = _find_common(folders) if side_by_side else [Run(folder).checkpoint() for folder in folders]
    for state, folder, checkpoint in zip(states, folders, checkpoints, strict=True):
        if fabric.is_global_zero:
            started = (folder / CONFIG).exists()
            state.run = Run(folder) if started else create(folder, describe_run(state.config))
        by_step.setdefault(0 if checkpoint is None else checkpoint["step"], []).append((state, checkpoint))
    fabric.barrier()
    for group_members in by_step.values():
        group, group_checkpoints = zip(*group_members, strict=True)
        available = [checkpoint for checkpoint in group_checkpoints if checkpoint is not None]
        if side_by_side:
            failures |= train(group, fabric, watch, available)
        else:
            for number, state in enumerate(group):
                failures |= train([state], fabric, watch, available[number : number + 1])
    return failures


def _train_unfinished(config: Train, seeds: Sequence[int], fabric: Any, out: Path, watch: Watch) -> dict[int, str]:
    """Train the seeds that are not complete. Folders of another configuration are rejected: their records would name
    settings that the runs were not trained with."""
    for seed in seeds:
        run = Run(_folder(out, seed))
        if not (run.path / CONFIG).exists():
            continue
        if changed := differences(read_run_config(run), replace(config, seed=seed)):
            raise ValueError(f"{run.path} is the run of another configuration ({'; '.join(changed)}): remove it")
    unfinished = [seed for seed in seeds if not Run(_folder(out, seed)).complete]
    return _train([prepare(replace(config, seed=seed), fabric) for seed in unfinished], fabric, out, watch)


def _conclude(failures: dict[int, str], seeds: Sequence[int], fabric: Any, out: Path) -> tuple[dict, list[Run]]:
    """Write the summary of all seeds and return it with the runs."""
    runs = [Run(_folder(out, seed)) for seed in seeds]
    if all(run.result is None for run in runs):
        raise Diverged("; ".join(f"seed {seed}: {failure}" for seed, failure in failures.items()), out)
    summary = summarise(runs) | {"failures": {str(seed): failure for seed, failure in failures.items()}}
    if fabric.is_global_zero:
        for leftover in out.glob(f"{TEMPORARY}*"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        write_json(out / "summary.json", summary, remedy=f"run `cornn resume {out}`")
    return summary, runs


def _find_common(folders: Sequence[Path]) -> list[dict | None]:
    """Return the last checkpoint of each run; if they were killed while saving, the last that all of them have."""
    checkpoints = [Run(folder).checkpoint() for folder in folders]
    first = min((checkpoint["step"] if checkpoint else 0 for checkpoint in checkpoints), default=0)
    for number, folder in enumerate(folders):
        checkpoint = checkpoints[number]
        if checkpoint is not None and checkpoint["step"] > first:
            previous = Run(folder).checkpoint(before=True)
            if (previous["step"] if previous else 0) == first:
                checkpoints[number] = previous
                if previous is not None:  # otherwise the next save would keep one that the other runs do not have
                    Run(folder).restore_previous_checkpoint()
    return checkpoints


def summarise(runs: Sequence[Run]) -> dict:
    """Summarise the test metric of several seeds: mean, standard deviation, best, 95 % interval of the mean."""
    finished = [result for run in runs if (result := run.result) is not None]
    tests = [result["test"] for result in finished]
    better = finished[0]["better"]
    interval = mean_interval(tests)
    return {
        "metric": finished[0]["metric"],
        "better": better,
        "seeds": len(runs),
        "finished": len(finished),
        "tests": tests,
        "mean": statistics.fmean(tests),
        "deviation": statistics.stdev(tests) if len(tests) > 1 else None,
        "best": min(tests) if better == "lower" else max(tests),
        "interval_95": None if interval is None else list(interval),
        "seconds": max(result["seconds"] for result in finished),
    }
