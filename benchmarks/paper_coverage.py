"""The paper, item by item: every claim, figure, table and statement, with its status and the evidence.

Results and verdicts are computed from the records and the register of statements. Items that cannot be computed have
their status here, with a note and the files that support it.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from coverage_items import Item, Status
from rival_tables import count_sizes, leads

from cornn._counts import format_count
from cornn._json import read_json
from cornn.baselines import MODELS
from cornn.lab import intervals, records
from cornn.lab.recipes import PUBLISHED, Published, resolve
from cornn.lab.report import comparison, tables
from cornn.lab.report.comparison import ContestResult
from cornn.lab.report.tables import RunGroup
from cornn.theory.register import REGISTER

SOLVED = 0.01  # mean squared error of adding
ABLATION_EPOCHS = 120
ABLATION_CORNERS = {(gamma, epsilon) for gamma in (0.8, 1.8) for epsilon in (5.7, 17.7)}
"""Of the paper's grid, as (gamma, epsilon)."""
LARGE_VARIATION = 10.0
"""In points; the paper calls the variation over its grid "not large" and gives no number."""
RIVALS_OF_ADDING = {
    500: (
        "FastRNN, the antisymmetric network and expRNN learn T = 500, tanh does not",
        {"fastrnn", "antisymmetric", "exprnn"},
    ),
    2000: ("of the rivals only expRNN beats chance at T = 2,000, and it does not reach 0.01", set()),
    5000: ("no rival consistently beats chance at T = 5,000", set()),
}
"""Length -> the claim of the paper's figure, and the rivals that get below `SOLVED`."""
LARGE_DEVIATION = 0.1
"""Of a printed number of parameters from the counted one, as a share of it."""


def items(results: Path) -> list[Item]:
    """Return every item of the paper, in its order, with its status according to the records under `results`."""
    contests = {contest.name: contest for contest in comparison.read(results)}
    groups = {task: tables.group_runs(results, task) for task in (*PUBLISHED, "adding")}
    return [
        *_cover_model(),
        *(Item(s.label, s.claim, s.verdict, s.remark, ("docs/theory.md",)) for s in REGISTER),
        *_cover_section_4(results, groups, contests),
        *(item for task in PUBLISHED for item in _cover_table(task, groups[task], contests)),
        *_cover_figures(results, groups, contests),
        *_cover_appendices(results, groups),
    ]


def _cover_model() -> Iterator[Item]:
    layer = ("src/cornn/functional.py", "tests/test_functional.py")
    yield Item("eq:ode1, eq:ode, eq:brnn", "the model, with both dampings", "confirmed", "the layer `CoRNN`", layer)
    note = "with the paper's constants and x - x^3/3 as activation it diverges in finite time; its start is ours"
    figure = ("docs/figures/theory-illustration.svg", "src/cornn/lab/report/figures/neurons.py")
    yield Item("section 2, appendix C", "a Duffing neuron is chaotic, that of fig:1 is damped", "differs", note, figure)


def _cover_section_4(
    results: Path, groups: dict[str, list[RunGroup]], contests: dict[str, ContestResult]
) -> Iterator[Item]:
    note = "no recipe of the paper clips, drops out or normalises"
    recipes = ("src/cornn/lab/recipes/paper.py",)
    yield Item("section 4", "no dropout, clipping or batch normalisation", "confirmed", note, recipes)
    yield _variant("section 4", "explicit damping is marginally better than implicit", groups, "damping")
    ranks = [
        _describe_rank(contest)
        for contest in contests.values()
        if contest.record["unit"] == "epochs" and any(row.name == "cornn" and row.tests for row in contest.rows)
    ]
    note = f"{leads(results)} It is {', '.join(ranks)}"
    content = "comparable to the state of the art, or ahead of it"
    yield Item("abstract, sections 4 and 5", content, "other budget", note, ("docs/rivals.md", "results/compare"))
    counts = count_sizes()
    wrong = [model for _, model, _, size, printed in counts if abs(printed / size - 1) > LARGE_DEVIATION]
    note = f"{len(wrong)} of {len(counts)} printed numbers deviate by more than {LARGE_DEVIATION:.0%}, "
    note += f"{wrong.count('coRNN') or 'none'} of them of coRNN; some belong to other inputs, or leave out a part"
    status: Status = "differs" if wrong else "confirmed"
    yield Item("tab:mnist to tab:lorenz", "numbers of parameters", status, note, ("docs/appendix-comparison.md",))
    chip = ("docs/export.md", "results/microcontroller.json")
    note = "exported to C and run on an emulated Cortex-M; FastGRNN of the same size is a good alternative"
    yield Item("section 4, HAR-2", "coRNN fits micro-controllers", "confirmed", note, chip)
    yield _cover_distribution(groups)


def _cover_distribution(groups: dict[str, list[RunGroup]]) -> Item:
    """Compare means and deviations with the paper's; the least favourable verdict counts."""
    notes, verdicts = [], []
    for task, rows in PUBLISHED.items():
        published = next((row for row in rows if row.mean is not None), None)
        if published is None:
            continue
        runs = _select_paper_runs(groups[task], published.units)
        ours = next((group for group in runs if not group.options), None)  # with the task's default options
        if ours is None or ours.deviation is None:
            continue
        verdicts.append(intervals.compare(ours.tests, ours.better, published, ours.failed))
        theirs = f"{published.mean:g} ± {published.deviation:g}"
        notes.append(f"{task} {ours.mean:.2f} ± {ours.deviation:.2f} ({len(ours.tests)} seeds; the paper: {theirs})")
    status: Status = "differs" if "differs" in verdicts else "undecided" if "undecided" in verdicts else "reproduced"
    content = "the means of ten runs are comparable to the best, with low standard deviations"
    note = f"{', '.join(notes)}; HAR-2 on new people, where the paper has another split"
    return Item("tab:distr_results", content, status, note, ("docs/reproduction.md",))


def _describe_rank(contest: ContestResult) -> str:
    """Return the place of coRNN with the paper's initialisation, by the mean test result."""
    tested = [row for row in contest.rows if row.tests]
    cornn = contest.find_row("cornn", tested=True)
    better = sum(statistics.fmean(row.tests) > statistics.fmean(cornn.tests) for row in tested)
    budget = f"{contest.record['final']} {contest.record['unit']}"
    one_seed = " (one seed)" * (len(cornn.tests) == 1)
    return f"number {better + 1} of {len(tested)} on {contest.name} after {budget}{one_seed}"


def _select_paper_runs(groups: Sequence[RunGroup], units: int) -> list[RunGroup]:
    """Return our runs of coRNN with the paper's settings."""
    return [
        group
        for group in groups
        if group.model == "cornn" and group.units == units and group.records and not group.settings
    ]


def _variant(place: str, content: str, groups: dict[str, list[RunGroup]], setting: str) -> Item:
    """Compare runs with one changed setting to those without the change."""
    notes, verdicts = [], []
    for groups_of_task in groups.values():
        for group in (group for group in groups_of_task if group.records and group.settings.keys() == {setting}):
            plain = next(
                (x for x in _select_paper_runs(groups_of_task, group.units) if x.options == group.options), None
            )
            if plain is None or plain.deviation is None:
                continue
            gap = intervals.difference(group.tests, plain.mean, plain.deviation, len(plain.tests))
            if gap is None:
                continue
            notes.append(f"{group.task}: {gap.low:+.2f} to {gap.high:+.2f} points")
            within = max(abs(gap.low), abs(gap.high)) <= intervals.MARGIN_POINTS
            verdicts.append(within and not group.failed and not plain.failed)
    status: Status = "reproduced" if verdicts and all(verdicts) else "undecided"
    return Item(place, content, status, f"with the change, {'; '.join(notes)}", ("docs/reproduction.md",))


def _cover_table(task: str, runs: list[RunGroup], contests: dict[str, ContestResult]) -> Iterator[Item]:
    """Yield the rows of the paper's table of a task."""
    for published in dict.fromkeys(PUBLISHED[task]):
        case = f", {published.case}" if published.case else ""
        content = f"{task}{case}: {published.model}-{published.units}, {_format_published(published)}"
        groups = [row.ours for row in tables.rows(task, runs) if row.published is published and row.ours is not None]
        for ours in groups:
            words = f" ({ours.case})" if ours.case and task != "lorenz96" else ""
            seeds = f"{len(ours.tests)} seed{'s' if len(ours.tests) > 1 else ''}"
            note = f"{ours.summary}, {seeds}{words}"
            status = intervals.compare(ours.tests, ours.better, published, ours.failed)
            yield Item(published.table, content, status, note, (f"results/{task}",))
        if not groups:
            yield _cover_rival(task, content, published, runs, contests)


def _format_published(published: Published) -> str:
    mean = "" if published.mean is None else f" (mean {published.mean:g} ± {published.deviation:g})"
    return f"{published.value:g}{mean}"


def _cover_rival(
    task: str, content: str, published: Published, runs: list[RunGroup], contests: dict[str, ContestResult]
) -> Item:
    """Return the row of a rival: from the longest contest, or from runs of another length or size, or not run."""
    rows = [
        (contest, row)
        for contest in contests.values()
        for row in contest.rows
        if contest.record["task"]["name"] == task and row.title == published.model and row.tests
    ]
    if rows:
        contest, row = max(rows, key=lambda pair: (pair[0].record["unit"] == "epochs", pair[0].record["final"]))
        record = contest.record
        seeds = format_count(len(row.tests), "seed")
        note = f"{row.test_summary}, {row.hidden_size} units, {record['final']} {record['unit']}, {seeds}"
        complete = record["unit"] == "epochs" and record["final"] >= resolve(task).budget.epochs
        same_size = row.hidden_size == published.units
        status: Status = "other budget"
        if complete and same_size:
            status = intervals.compare(row.tests, record["better"], published, row.failed)
        return Item(published.table, content, status, note, (f"results/compare/{contest.name}.json",))
    names = [name for name, model in MODELS.items() if model.title == published.model]
    groups = [group for group in runs if group.model in names and group.records]
    if groups:
        note = f"{groups[0].summary}, {groups[0].units} units ({groups[0].case})"
        return Item(published.table, content, "other budget", note, (f"results/{task}",))
    return Item(published.table, content, "not run", "no run on this task", ("results/missing-runs.md",))


def _describe_other_rivals(groups: Sequence[RunGroup], length: int) -> str:
    """Return which rivals solve adding in runs outside the contests, or nothing."""
    solved = {
        group.model: sum(test < SOLVED for test in group.tests)
        for group in groups
        if group.model != "cornn"
        and group.options.get("length", 500) == length
        and any(t < SOLVED for t in group.tests)
    }
    words = ", ".join(f"{MODELS[name].title} ({format_count(count, 'seed')})" for name, count in solved.items())
    return f"; outside the comparison also by {words}" if words else ""


def _cover_figures(
    results: Path, groups: dict[str, list[RunGroup]], contests: dict[str, ContestResult]
) -> Iterator[Item]:
    for length in RIVALS_OF_ADDING:
        long = contests.get(f"adding-{length}-long")
        yield _cover_adding(length, tables.longest_runs(results, "adding", "paper", length=length), long)
        if length == 500 and long is not None:
            yield _cover_adding_speed(long)
        contest = long or contests.get(f"adding-{length}")
        if contest is not None:
            yield _cover_adding_rivals(length, contest, _describe_other_rivals(groups["adding"], length))
    if "psmnist" in contests:
        note = f"coRNN is {_describe_rank(contests['psmnist'])}"
        evidence = ("results/compare/psmnist.json", "docs/rivals.md")
        yield Item("fig:mnist", "coRNN is ahead on psMNIST at 128 units", "other budget", note, evidence)
    yield _cover_assumption(groups)
    yield _ablation(groups["noisy-cifar10"])


def _cover_adding(length: int, runs: Sequence[dict], long: ContestResult | None) -> Item:
    """Compare the seeds that solve adding with the paper's constants, and with constants chosen at its length."""
    content, evidence = f"coRNN learns T = {length:,}", ["docs/adding.md", "results/adding"]
    if not runs:
        return Item("fig:adding_results", content, "not run", "no run", tuple(evidence))
    solved = sum("test" in run["result"] and run["result"]["test"] < SOLVED for run in runs)
    budgets = sorted({records.read_config(run).budget.steps or 0 for run in runs})
    limit = " or ".join(f"{steps:,}" for steps in budgets)
    note = f"with the paper's constants for T = 5,000 solved from {solved} of {len(runs)} seeds, "
    note += f"in at most {limit} training steps"
    counts = [(solved, len(runs))]
    if long is not None:
        row = long.find_row("cornn")
        steps = row.solved_steps or []
        note += f"; with constants chosen by {len(row.entry['trials'])} trials from {row.solved} at T = {length:,}"
        counts.append((len(steps), len(row.entry["finals"])))
        evidence.append(f"results/compare/{long.name}.json")
    status: Status = "undecided"  # with a single run, or if some runs solve the task
    if any(1 < seeds == wins for wins, seeds in counts):
        status = "confirmed"
    elif max(seeds for _, seeds in counts) > 1 and not any(wins for wins, _ in counts):
        status = "differs"
    return Item("fig:adding_results", content, status, note, tuple(evidence))


def _cover_adding_speed(contest: ContestResult) -> Item:
    """Compare the training steps of coRNN with those of the rivals that solve a task from every seed."""
    steps = {
        row.title: row.solved_steps
        for row in contest.rows
        if row.solved_steps and len(row.solved_steps) == len(row.entry["finals"]) > 1
    }
    ours = steps.get("coRNN")
    rivals = [numbers for title, numbers in steps.items() if title != "coRNN"]
    gaps = [intervals.difference_of_runs(ours, others) for others in rivals if ours]
    status: Status = "undecided"
    if gaps and all(gap is not None and gap.high < 0 for gap in gaps):
        status = "confirmed"
    elif any(gap is not None and gap.low > 0 for gap in gaps):
        status = "differs"
    ranges = ", ".join(f"{title} after {min(numbers):,} to {max(numbers):,}" for title, numbers in steps.items())
    note = f"in at most {contest.record['final']:,} training steps, solved from every seed by: {ranges or 'no model'}; "
    note += "a training ends there, so that the final errors rank nothing"
    content = "coRNN converges faster and to a lower error than the others at T = 500"
    return Item("fig:adding_results", content, status, note, (f"results/compare/{contest.name}.json",))


def _cover_adding_rivals(length: int, contest: ContestResult, outside: str) -> Item:
    """Compare the rivals that solve adding with those of the paper's figure."""
    content, learn = RIVALS_OF_ADDING[length]
    record = contest.record
    wins = [row for row in contest.rows if row.solved_steps]
    words = ", ".join(row.title for row in wins) or "no model"
    note = f"in at most {record['final']:,} training steps, solved by: {words}"
    status: Status = "other budget"
    if contest.name.endswith("-long"):
        seeds = max(len(row.tests) for row in contest.rows)
        matches_paper = {row.name for row in wins} - {"cornn"} == learn
        status = "undecided" if seeds == 1 else "confirmed" if matches_paper else "differs"
        note += f"; {format_count(seeds, 'seed')} per model, settings chosen by trials of {record['trial']:,} steps, "
        note += "in which few models leave chance"
    return Item("fig:adding_results", content, status, note + outside, (f"results/compare/{contest.name}.json",))


def _cover_assumption(groups: Mapping[str, Sequence[RunGroup]]) -> Item:
    """Compare both sides of eq:assm at every evaluation of the runs that recorded them."""
    content = "eq:assm holds during training, for all tasks"
    holds: dict[tuple[str, int], list[bool]] = {}  # task, neurons -> whether it holds at each evaluation
    for task, groups_of_task in groups.items():
        for group in groups_of_task:
            rows = [row for record in group.records for row in record["curve"].get("theory", ()) if row is not None]
            if rows:
                holds.setdefault((task, group.units), []).extend(
                    row["assumption"] <= row["assumption_limit"] for row in rows
                )
    if not holds:
        return Item("fig:weight_assumptions", content, "not run", "no run has recorded it", ("docs/theory.md",))
    cases = [
        f"{task}-{units} at {values.count(False)} of {len(values)} evaluations"
        for (task, units), values in sorted(holds.items())
    ]
    refuted = any(False in values for values in holds.values())
    complete = {task for task, _ in holds} >= set(PUBLISHED)
    status: Status = "false" if refuted else "confirmed" if complete else "undecided"
    evidence = ("docs/theory.md", *(f"results/{task}" for task, _ in sorted(holds)))
    return Item("fig:weight_assumptions", content, status, f"it fails for {', '.join(cases)}", evidence)


def _ablation(groups: Sequence[RunGroup]) -> Item:
    content = "accuracy on noise-padded CIFAR-10 has no large variation over a grid of gamma and epsilon"
    grids = tables.ablation_grids(groups)
    if not grids:
        return Item("fig:ablation", content, "not run", "no grid", ("results/missing-runs.md",))
    spreads, notes = {}, []
    for epochs, grid in grids.items():
        values = [value for tests in grid.values() for value in tests]
        spreads[epochs] = max(values) - min(values)
        notes.append(f"{len(grid)} points after {epochs} epochs: {min(values):.1f} to {max(values):.1f} %")
    status: Status = "other budget"
    if grids.get(ABLATION_EPOCHS, {}).keys() >= ABLATION_CORNERS:
        status = "differs" if spreads[ABLATION_EPOCHS] > LARGE_VARIATION else "confirmed"
    note = "; ".join(notes) + (f" (the paper: {ABLATION_EPOCHS})" if status == "other budget" else "")
    note += "; one run per point" if all(len(tests) == 1 for grid in grids.values() for tests in grid.values()) else ""
    return Item("fig:ablation", content, status, note, ("docs/reproduction.md", "results/noisy-cifar10"))


def _compare_lorenz(content: str, ours: RunGroup, lstm: RunGroup, claims_equal: bool) -> Item:
    """Compare the errors of coRNN and an LSTM with the claim that they are alike, or that the LSTM's is smaller."""
    gap = None
    if lstm.deviation is not None:  # a single run is not exact
        gap = intervals.difference(ours.tests, lstm.mean, lstm.deviation, len(lstm.tests))
    status: Status = "undecided"
    if gap is not None and gap.low > 0:
        status = "differs" if claims_equal else "confirmed"
    elif gap is not None and gap.high < 0:
        status = "differs"
    note = f"LSTM {lstm.summary}, coRNN {ours.summary}"
    return Item("appendix A", content, status, note, ("results/lorenz96", "results/lorenz96-baselines.json"))


def _cover_random_search(results: Path) -> Item:
    """Return how far the paper's random search, whose number of trials it does not give, was repeated."""
    notes, evidence = ["`cornn search` has its ranges"], ["docs/search.md"]
    for name, words, unit in (
        ("har2-random-search.json", "HAR-2 repeated", "epochs"),
        ("adding-random-search.json", "adding at length 500", "steps"),
    ):
        if (results / name).exists():
            content = read_json(results / name)
            notes.append(f"{words} with {len(content['rows'])} trials of {content[unit]:,} {unit}")
            evidence.append(f"results/{name}")
    trials = [
        f"{len(row.entry['trials'])} trials of {contest.record['trial']:,} steps at length {length:,}"
        for length in RIVALS_OF_ADDING
        for contest in comparison.read(results)
        if contest.name == f"adding-{length}"
        for row in contest.rows
        if row.name == "cornn"
    ]
    if trials:
        notes.append(f"adding in contests with {', '.join(trials)}, where the learning rate was searched too")
        evidence.append("results/compare")
    return Item("tab:hyperparameters", "random search", "other budget", "; ".join(notes), tuple(evidence))


def _cover_appendices(results: Path, groups: dict[str, list[RunGroup]]) -> Iterator[Item]:
    by_force: dict[float, dict[str, RunGroup]] = {}
    for group in groups["lorenz96"]:
        if group.records:
            by_force.setdefault(float(group.options.get("force", 8.0)), {})[group.model] = group
    claims = ((8.0, "an LSTM is better than coRNN at F = 8", False), (0.9, "both are alike at F = 0.9", True))
    for force, content, claims_equal in claims:
        pair = by_force.get(force, {})
        if {"cornn", "lstm"} <= pair.keys():
            yield _compare_lorenz(content, pair["cornn"], pair["lstm"], claims_equal)
    figure = ("docs/figures/theory-lorenz96.svg",)
    yield Item("fig:lorenz", "trajectories", "confirmed", "`cornn figure lorenz96`", figure)
    note = "coRNN can be chaotic (after prop:2); at F = 8 it is better here than the paper's LSTM"
    yield Item("appendix A", "coRNN cannot model chaos by construction", "false", note, ("docs/theory.md",))
    note = "as in the authors' code, where the text and the code differ"
    recipes = ("src/cornn/lab/recipes/paper.py", "tests/lab/test_recipes.py")
    yield Item("appendix B", "initialisation, epochs and learning rates", "confirmed", note, recipes)
    yield _variant("appendix B", "trained dt, gamma and epsilon make no major difference", groups, "trainable")
    yield _cover_random_search(results)
    yield Item("tab:hyperparameters_rounded", "constants and rates", "confirmed", "recipes `paper`", recipes)
    figure = ("docs/figures/theory-illustration.svg", "src/cornn/lab/report/figures/neurons.py")
    note = "`cornn figure illustration`; the paper gives no initial values, horizon and steps; DUFF diverges with ours"
    yield Item("fig:1", "single neurons and small networks, six panels", "confirmed", note, figure)
