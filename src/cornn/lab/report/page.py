"""The report: one self-contained HTML page from `results/`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cornn import __version__
from cornn._checked import encode
from cornn._machine import machine
from cornn._source import commit
from cornn.artifacts import is_saved
from cornn.baselines import MODELS
from cornn.lab import records
from cornn.lab.config import flat_settings
from cornn.lab.recipes import PUBLISHED
from cornn.lab.report import comparison, tables, targets
from cornn.lab.report.figures import FIGURES
from cornn.lab.report.figures.ablation import ablation
from cornn.lab.report.figures.assumptions import assumptions
from cornn.lab.report.figures.comparison import comparison_curves as tuned
from cornn.lab.report.figures.curves import curves
from cornn.lab.report.tables import RunGroup
from cornn.lab.tasks import TASKS
from cornn.plots import pages
from cornn.plots.style import data_uri
from cornn.theory.register import REGISTER

DIFFERENCES = {
    "har2": "With the publisher's test split, nine people who are not in the training split, coRNN stays below the "
    "paper. If all windows of all people are split at random (test windows), 64 neurons give the paper's mean and 20 "
    "neurons give more. Then most test windows overlap windows of the training split. The paper's own split is not "
    "published.",
    "smnist": "Both sizes end a few tenths of a point below the paper; with 256 neurons the difference is larger than "
    "either standard deviation.",
    "psmnist": "With 256 neurons our mean is below the paper's by about its standard deviation. With 128 neurons the "
    "result depends on the seed: some runs start learning only halfway, in others the loss jumps back up until the "
    "learning rate drops after 100 epochs.",
    "adding": "The paper's settings solve the task for some seeds; for others they stay at chance or diverge.",
    "lorenz96": "The paper gives neither learning rate nor number of epochs. The learning rate is the best of a grid, "
    "by validation, for each model and force; the other settings were chosen for coRNN at F = 8.",
}
"""Task -> differences from the paper, and their reasons. Shown only if there are enough runs."""


def page(results: records.Results, missing_runs: Sequence[tuple[str, str, int]]) -> str:
    """Render the report as HTML that loads nothing from the network; missing runs: task, name, number of seeds."""
    pages.check_packages("the report")
    folders = records.list_folders(results)
    if not any(is_saved(folder) or any(folder.glob("*/*.json")) for folder in folders):
        names = ", ".join(map(str, folders))
        raise FileNotFoundError(f"no records under {names}: name another folder, or run `cornn reproduce`")
    groups = {task: tables.group_runs(results, task) for task in TASKS}
    return pages.render(
        Path(__file__).parent / "report.html.jinja",
        version=__version__,
        commit=commit(),
        machine=machine(),
        sections=[
            _describe_section(task, groups_of_task)
            for task, groups_of_task in groups.items()
            if groups_of_task or task in PUBLISHED
        ],
        contests=[
            {"contest": contest, "curves": data_uri(tuned(contest))}
            for contest in comparison.read(results)
            if contest.rows
        ],
        targets=targets.read(results),
        anchor=_anchor,
        watched=_draw_assumptions(results),
        missing_runs=missing_runs,
        speed=_read_speed(results),
        register=REGISTER,
        footnote=records.FOOTNOTE,
        names={name: model.title for name, model in MODELS.items()},
        figures={name: data_uri(FIGURES[name]()) for name in ("illustration", "lags", "statements")},
    )


def _describe_section(task: str, groups: list[RunGroup]) -> dict[str, Any]:
    unchanged = [group for group in groups if group.records and not group.settings]
    return {
        "task": task,
        "about": TASKS[task].__doc__,
        "rows": tables.rows(task, groups),
        "variants": [group for group in groups if group.settings],
        "ablation": _draw_ablation(groups),
        "curves": data_uri(curves(unchanged)) if unchanged else None,
        "difference": DIFFERENCES.get(task) if unchanged and all(len(group.tests) > 2 for group in unchanged) else None,
        "records": [
            {"anchor": _anchor(group), "group": group, "runs": [_describe_run(record) for record in group.records]}
            for group in groups
        ],
    }


def _draw_ablation(groups: list[RunGroup]) -> str | None:
    """Draw the grid of the longest runs that differ only in gamma and epsilon, if there is one."""
    grids = tables.ablation_grids(groups)
    return data_uri(ablation(grids[max(grids)])) if grids else None


def _draw_assumptions(results: records.Results) -> str | None:
    """Draw the assumption on the weights during training, for the runs that recorded it."""
    all_records = [record for task in TASKS for record in records.read(results, task)]
    paths = [record["path"] for record in all_records if "theory" in (record.get("curve") or {})]
    return data_uri(assumptions(paths)) if paths else None


def _anchor(group: RunGroup) -> str:
    """Return the anchor at which the page lists these runs."""
    changes = (f"{key}-{value}" for key, value in (group.options | group.settings).items())
    return "-".join([group.task, group.model, str(group.units), *changes]).replace(" ", "")


def _describe_run(record: dict) -> dict[str, Any]:
    result, config = record["result"], records.read_config(record)
    settings = encode(config.task) | encode(flat_settings(config))
    return {
        "seed": config.seed,
        "test": result["test"],
        "validation": result.get("validation"),
        "steps": result["steps"],
        "seconds": result["seconds"],
        "commit": result.get("commit") or "",
        "mark": records.mark([result]),
        "machine": ", ".join(f"{key} {value}" for key, value in result["machine"].items() if value),
        "settings": ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None),
    }


def _read_speed(results: records.Results) -> list[dict]:
    paths = [path for folder in records.list_folders(results) if (path := folder / "speed-cuda.json").exists()]
    return json.loads(paths[-1].read_text(encoding="utf8"))["times"] if paths else []
