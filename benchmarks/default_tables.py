"""Tables about the default of `CoRNN`, from results/default-layer*.json and results/user-loop-cuda.json."""

from pathlib import Path
from statistics import mean

from default_layer import BLOCKS, neurons_as

from cornn._json import read_json
from cornn.lab import records
from cornn.lab.intervals import mean_interval
from cornn.lab.tasks import Adding

RESULTS = Path(__file__).resolve().parents[1] / "results"
NAMES = {
    "pixels": "permuted pixels, 784 steps (accuracy)",
    "rows": "image rows, 28 steps (accuracy)",
    "noise": "image rows, then 472 steps of noise (accuracy)",
    "cifar": "CIFAR-10 rows, then 468 steps of noise (accuracy)",
    "har": "HAR-2, 128 steps (accuracy)",
    "imdb": "IMDB words, 200 steps (accuracy)",
    "char": "next character, 200 steps (bits)",
    "lorenz": "Lorenz-96, 300 steps (NRMSE)",
    "latch": "last marked value, 200 steps (MSE)",
    "adding200": "adding, 200 steps (steps until MSE < 0.01)",
    "adding500": "adding, 500 steps (steps until MSE < 0.01)",
}
HIGHER = ("pixels", "rows", "noise", "cifar", "har", "imdb")
DIGITS = {"period": 4, "char": 2, "lorenz": 3, "latch": 4, "adding200": 0, "adding500": 0}


def _load(name: str) -> list[dict]:
    return read_json(RESULTS / name)["rows"]


def _value(row: dict) -> float:
    """Return the score of a training; a training that never solved adding counts with all of its steps."""
    if row["task"].startswith("adding"):
        return row["steps"] if row["solved_after"] is None else row["solved_after"]
    return row["value"]


def _select(rows: list[dict], task: str, **fields) -> dict[int, float]:
    """Return seed -> score."""
    selected = [row for row in rows if row["task"] == task and all(row[key] == value for key, value in fields.items())]
    return {row["seed"]: _value(row) for row in selected}


def _format(task: str, values: dict[int, float]) -> str:
    return f"{mean(values.values()):.{DIGITS.get(task, 1)}f}" if values else "-"


def _difference(task: str, ours: dict[int, float], other: dict[int, float]) -> str:
    """Return the mean of ours minus other, and the 95 % interval of the paired differences."""
    pairs = [ours[seed] - other[seed] for seed in ours if seed in other]
    if not pairs:
        return "-"
    digits, middle, interval = DIGITS.get(task, 1), mean(pairs), mean_interval(pairs)
    if interval is None:
        return f"{middle:+.{digits}f} (one seed)"
    verdict = _judge(task, pairs)
    words = "**better**" if verdict == "better" else verdict
    return f"{middle:+.{digits}f} ± {interval.high - middle:.{digits}f}, {words}"


def _judge(task: str, pairs: list[float]) -> str:
    """Say whether paired differences show that ours is better or worse; "undecided" if their interval contains 0."""
    interval = mean_interval(pairs)
    if interval is None or interval.low <= 0 <= interval.high:
        return "undecided"
    return "better" if (interval.low > 0) == (task in HIGHER) else "worse"


def compare_with_gru() -> dict[str, tuple[str, str]]:
    """Return task -> difference to the GRU with its 95 % interval, and "undecided", "worse" or "**better**"."""
    rows = _load("default-layer.json")
    verdicts = {}
    for task in NAMES:
        ours, other = (_select(rows, task, model=model, hidden_size=_size(task)) for model in ("default", "gru"))
        difference, _, verdict = _difference(task, ours, other).partition(", ")
        verdicts[task] = difference, verdict
    return verdicts


def means(*models: str) -> dict[str, list[float]]:
    """Return task -> means of the comparison with equal units, one per model."""
    rows = _load("default-layer.json")
    return {
        task: [mean(_select(rows, task, model=model, hidden_size=_size(task)).values()) for model in models]
        for task in NAMES
    }


def _size(task: str) -> int:
    return 256 if task == "char" else 128


def _gru_at_5000() -> list[dict]:
    """Return the trainings of a GRU on adding over 5,000 steps in results/adding."""
    runs = []
    for record in records.read(RESULTS, "adding"):
        config = records.read_config(record)
        if config.model.name == "gru" and isinstance(config.task, Adding) and config.task.length == 5000:
            solved = record["result"]["test"] < record["result"]["solved"]
            row = {
                "rate": config.optimiser.learning_rate,
                "beta2": config.optimiser.beta2,
                "steps": config.budget.steps,
            }
            runs.append(row | {"solved_after": record["result"]["steps"] if solved else None})
    return runs


def gru_at_5000() -> str:
    """Say when a GRU solved adding over 5,000 steps, outside the comparison with equal tuning budgets."""
    runs = _gru_at_5000()
    (rate,) = {row["rate"] for row in runs}
    solved = sorted(row["solved_after"] for row in runs if row["solved_after"] is not None)
    after = f" after {' to '.join(str(steps) for steps in dict.fromkeys((solved[0], solved[-1])))} training steps"
    text = f"a GRU with learning rate {rate} solved 5,000 steps in {len(solved)} of {len(runs)} runs"
    return text + (after if solved else "")


def gru_note() -> str:
    """Say in the docs that in the contest of 5,000 steps it was the tuning of the GRU that failed."""
    ((steps, beta2),) = {(row["steps"], row["beta2"]) for row in _gru_at_5000()}
    return (
        "In the contest `adding-5000` it is the tuning of the GRU that fails, not the GRU: with "
        f"{steps:,} training steps and a beta2 of {beta2:g}, as there, {gru_at_5000()} (`results/adding`)."
    )


def comparison() -> str:
    rows = _load("default-layer.json")
    lines = [
        "| task | `CoRNN(d, m)`, rate 0.016 | nn.GRU, rate tuned | nn.LSTM, rate tuned | version 0.1.0 | minus GRU | "
        "minus 0.1.0 |",
        "| --- |" + " ---: |" * 6,
    ]
    for task, name in NAMES.items():
        size = _size(task)
        results = {
            model: _select(rows, task, model=model, hidden_size=size) for model in ("default", "gru", "lstm", "today")
        }
        cells = [_format(task, values) for values in results.values()]
        cells += [_difference(task, results["default"], results[model]) for model in ("gru", "today")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parameters() -> str:
    """Give ours more neurons, so that it has as many parameters as the GRU or the LSTM."""
    rows = _load("default-layer.json")
    lines = [
        "| task | rival | neurons | seeds | `CoRNN` | rival, the same seeds | difference |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in NAMES:
        for rival in BLOCKS:
            hidden = neurons_as(rival, task)
            ours = _select(rows, task, model="default", hidden_size=hidden)
            other = _select(rows, task, model=rival, hidden_size=_size(task))
            seeds = ours.keys() & other.keys()
            ours, other = ({seed: results[seed] for seed in sorted(seeds)} for results in (ours, other))
            if seeds:
                cells = [_format(task, ours), _format(task, other), _difference(task, ours, other)]
                lines.append(
                    f"| {NAMES[task]} | nn.{rival.upper()} | {hidden} | {len(seeds)} | " + " | ".join(cells) + " |"
                )
    return "\n".join(lines)


def centred() -> str:
    """Compare ours after `centre_` with ours as it is, and with the GRU."""
    rows = _load("default-layer.json")
    lines = [
        "| task | `CoRNN(d, m)` | after `centre_` | nn.GRU, rate tuned | after `centre_`, minus GRU |",
        "| --- |" + " ---: |" * 4,
    ]
    for task, name in NAMES.items():
        results = [_select(rows, task, model=model, hidden_size=_size(task)) for model in ("default", "centred", "gru")]
        if results[1]:
            cells = [_format(task, values) for values in results]
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {_difference(task, *results[1:])} |")
    return "\n".join(lines)


def ideas() -> str:
    """Write one row per idea: all seeds of adding, means elsewhere."""
    content = read_json(RESULTS / "default-layer-ideas.json")
    tasks = ("adding200", "adding500", "pixels", "rows", "noise", "char", "har", "lorenz")
    lines = ["| idea | " + " | ".join(tasks) + " |", "| --- |" + " ---: |" * len(tasks)]
    for idea in content["ideas"]:
        cells = []
        for task in tasks:
            matches = sorted(
                (r for r in content["rows"] if (r["model"], r["task"]) == (idea, task)), key=lambda r: r["seed"]
            )
            if task.startswith("adding"):
                cells.append(", ".join(str(row["solved_after"] or "-") for row in matches) or " ")
            else:
                cells.append(_format(task, {row["seed"]: row["value"] for row in matches}) if matches else " ")
        lines.append(f"| {idea} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def durations() -> str:
    """Compare even and uneven times, the plain equations, and PyTorch's layers with the time as a feature."""
    lines = []
    for device in ("cpu", "cuda"):
        path = RESULTS / f"durations-{device}.json"
        if not path.exists():
            continue
        content = read_json(path)
        names = list(dict.fromkeys(row["contender"] for row in content["rows"]))
        if not lines:
            lines = [
                "| machine | steps, batch, neurons | " + " | ".join(names) + " |",
                "| --- | --- |" + " ---: |" * len(names),
            ]
        machine = content["machine"].get("gpu") or f"CPU, {content['machine']['threads']} threads"
        for size in dict.fromkeys((row["steps"], row["batch"], row["hidden"]) for row in content["rows"]):
            rows_of_size = [r for r in content["rows"] if (r["steps"], r["batch"], r["hidden"]) == size]
            cells = (
                f"{1e3 * row['seconds']:.2f}" if device == "cuda" else f"{1e3 * row['seconds']:.0f}"
                for row in rows_of_size
            )
            lines.append(f"| {machine} | {', '.join(map(str, size))} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _searched(variants: dict[str, dict], tasks: tuple[str, ...]) -> str:
    """Write one row per variant: all seeds of adding, means elsewhere."""
    rows = _load("default-layer-search.json")
    lines = ["| variant | " + " | ".join(tasks) + " |", "| --- |" + " ---: |" * len(tasks)]
    for name, fields in variants.items():
        cells = []
        for task in tasks:
            conditions = {"rate": 0.016, "hidden_size": 256 if task.startswith("char") else 128} | fields
            matches = [
                row
                for row in rows
                if row["task"] == task
                and row.get("optimiser") == conditions.get("optimiser")
                and all(row[key] == value for key, value in conditions.items() if key != "optimiser")
            ]
            seeds = {row["seed"]: row for row in matches}
            if task.startswith("adding"):
                solved = ["-" if row["solved_after"] is None else str(row["solved_after"]) for row in seeds.values()]
                cells.append(", ".join(solved) or " ")
            else:
                values = [row["value"] for row in seeds.values() if row["value"] is not None]
                cells.append(f"{mean(values):.{DIGITS.get(task, 1)}f}" if values else " ")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def search() -> str:
    tasks = ("adding200", "adding500", "pixels", "noise", "rows", "char")
    variants = {
        "the first prototype: dt 0.9, 0.3 and 0.1, thirds": {"variant": "issue"},
        "D: the default with coupling 0.2": {"variant": "D"},
        "D, coupling 0.1": {"variant": "D.1"},
        "D, coupling 0.5, rows of W by their gain for constants": {"variant": "R"},
        "D, coupling 0.4 for fast and 0.1 for slow rows": {"variant": "Dr"},
        "D, random bias of the fast neurons": {"variant": "Db"},
        "D, an assumed mean of 0.1": {"variant": "D1"},
        "D, slower rates of slow rows": {"variant": "A14"},
        "D, mirrored pairs of slow neurons": {"variant": "M0"},
        "D, slower rates and mirrored pairs": {"variant": "M14"},
        "D, couplings 0.4 and 0.1, random bias; head reads y and z": {"variant": "Drbz"},
        "the same; gamma and epsilon trained, head reads y": {"variant": "Drbt"},
    }
    return _searched(variants, tasks)


def rates() -> str:
    tasks = ("adding200", "adding500", "pixels", "noise", "rows", "char")
    return _searched(
        {f"D, rate {rate}": {"variant": "D", "rate": rate} for rate in (0.004, 0.008, 0.016, 0.032)}, tasks
    )


def _variants(task: str, **fields) -> list[float]:
    """Return the scores of a variant, one per seed; fields that are not given have their defaults."""
    conditions = {"rate": 0.016, "hidden_size": _size(task), "optimiser": None, "length": None} | fields
    rows = [row for row in _load("default-layer-variants.json") if row["task"] == task]
    return [_value(row) for row in rows if all(row.get(key) == value for key, value in conditions.items())]


def _cells(task: str, values: list[float]) -> str:
    """Write all seeds of adding, where a training that fails counts as "-", and the mean elsewhere."""
    if task.startswith("adding"):
        return ", ".join("-" if value == STEPS[task] else f"{value:.0f}" for value in values)
    return f"{mean(values):.{DIGITS.get(task, 1)}f}" if values else "-"


STEPS = {"adding200": 2000, "adding500": 2500, "adding5000": 1500}
"""Training steps; a training that never solved adding has this score."""


def optimisers() -> str:
    variants = {
        "AdamW, weight decay 0.01, rate 0.016": ("adamw .01", 0.016),
        "AdamW, weight decay 0.1, rate 0.016": ("adamw .1", 0.016),
        "RMSprop, rate 0.001": ("rmsprop", 0.001),
        "RMSprop, rate 0.004": ("rmsprop", 0.004),
        "SGD with momentum 0.9, rate 0.1": ("sgd", 0.1),
        "SGD with momentum 0.9, rate 0.5": ("sgd", 0.5),
        "SGD with momentum 0.9, rate 2": ("sgd", 2.0),
    }
    tasks = ("adding200", "pixels", "rows")
    lines = ["| optimiser | " + " | ".join(tasks) + " |", "| --- |" + " ---: |" * len(tasks)]
    adam = {task: _select(_load("default-layer.json"), task, model="default", hidden_size=128) for task in tasks}
    cells = [_cells(task, [scores[seed] for seed in (3, 4)]) for task, scores in adam.items()]
    lines.append("| Adam, rate 0.016 | " + " | ".join(cells) + " |")
    for name, (optimiser, rate) in variants.items():
        cells = [_cells(task, _variants(task, optimiser=optimiser, rate=rate)) for task in tasks]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


RATES = (0.004, 0.016, 0.064)


def rates_by_width() -> str:
    tasks = ("rows", "har", "adding200")
    lines = [
        "| neurons | " + " | ".join(f"{task}, {rate}" for task in tasks for rate in RATES) + " |",
        "| ---: |" + " ---: |" * len(tasks) * len(RATES),
    ]
    for width in (16, 32, 64, 128, 256, 512):
        cells = [_cells(task, _variants(task, rate=rate, hidden_size=width)) for task in tasks for rate in RATES]
        lines.append(f"| {width} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rates_by_features() -> str:
    tasks = {
        "groups1": (1, "pixels in reading order"),
        "groups4": (4, "four pixels per step"),
        "rows": (28, "rows"),
        "lifted100": (100, "rows times a random matrix"),
        "lifted300": (300, "rows times a random matrix"),
    }
    lines = [
        "| features | MNIST as | " + " | ".join(f"rate {rate}" for rate in RATES) + " |",
        "| ---: | --- |" + " ---: |" * len(RATES),
    ]
    for task, (features, what) in tasks.items():
        cells = [_cells(task, _variants(task, rate=rate)) for rate in RATES]
        lines.append(f"| {features} | {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def lengths() -> str:
    """Compare with time scales that fit the length of the task."""
    rows = _load("default-layer.json")
    lines = ["| task | default | time scales by length |", "| --- | ---: | ---: |"]
    tasks = {"pixels": 784, "rows": 28, "noise": 500, "har": 128, "char": 200, "latch": 200}
    for task, length in (tasks | {"adding200": 200, "adding500": 500}).items():
        plain = list(_select(rows, task, model="default", hidden_size=_size(task)).values())
        lines.append(f"| {NAMES[task]} | {_cells(task, plain)} | {_cells(task, _variants(task, length=length))} |")
    return "\n".join(lines)


def widths() -> str:
    variants = {
        f"{size} neurons, coupling ~ m^-{power}": {"variant": f"Drb w{power}", "hidden_size": size}
        for size in (16, 32, 512)
        for power in (0, 0.5, 1)
    }
    return _searched(variants, ("adding200", "pixels", "rows", "har"))


def sizes() -> str:
    lines = ["| input | steps | layer 1 | layer 2 | layer 3 | layer 4 |", "| --- |" + " ---: |" * 5]
    for row in _load("default-layer-sizes.json"):
        lines.append(f"| {row['input']} | {row['steps']:,} | " + " | ".join(f"{x:.2f}" for x in row["rms"]) + " |")
    return "\n".join(lines)


def long_adding() -> str:
    """Report which models of the search solve adding with 5,000 steps."""
    rows = [row for row in _load("default-layer-search.json") if row["task"] == "adding5000"]
    final = [row for row in _load("default-layer-variants.json") if row["task"] == "adding5000"]
    groups = {
        "nn.GRU, rate 0.016": _gru_at_5000(),
        "`CoRNN(d, m)`, rate 0.016": [row for row in final if "length" not in row and row["model"] == "default"],
        "the same, after `centre_`": [row for row in final if row["model"] == "centred"],
        "the same, time scales by length": [row for row in final if "length" in row],
        "prototypes of the layer, rate 0.016": [row for row in rows if row["variant"] != "gru"],
    }
    lines = ["| model | trainings | training steps of each | solved after |", "| --- | ---: | ---: | ---: |"]
    for name, group in groups.items():
        steps = " or ".join(f"{number:,}" for number in sorted({row["steps"] for row in group}))
        solved = ", ".join(str(row["solved_after"]) for row in group if row["solved_after"] is not None) or "never"
        lines.append(f"| {name} | {len(group)} | {steps} | {solved} |")
    return "\n".join(lines)


GOAL = 0.02  # the share of time that the scales may cost


PASSES = {"seconds": "forward and backward", "forward_seconds": "forward"}
MODES = ("launched", "captured", "CPU")


def _costs() -> list[tuple[str, str, dict[str, tuple[float, float, float]]]]:
    """Return size, mode, and for each pass the seconds with given constants, of the default, and its share more."""
    rows = [*_load("user-loop-cuda.json"), *(row | {"mode": "CPU"} for row in _load("user-loop-cpu.json"))]
    costs = []
    for case, mode in dict.fromkeys((row["case"], row["mode"]) for row in rows if row["mode"] in MODES):
        by_contender = {row["contender"]: row for row in rows if (row["case"], row["mode"]) == (case, mode)}
        constants, default = by_contender["CoRNN, given constants"], by_contender["CoRNN"]
        size = ", ".join(str(default[key]) for key in ("steps", "batch", "hidden", "inputs"))
        times = {kind: (constants[kind], default[kind], default[kind] / constants[kind] - 1) for kind in PASSES}
        costs.append((size, mode, times))
    return costs


def cost() -> str:
    """Compare the default with given constants and no scales."""
    lines = [
        "| steps, batch, neurons, features | mode | "
        + " | ".join(f"{name}: given, default, ms | difference" for name in PASSES.values())
        + " |",
        "| --- | --- |" + " ---: |" * 2 * len(PASSES),
    ]
    for size, mode, times in _costs():
        cells = [
            f"{1e3 * seconds:.3f}, {1e3 * default:.3f} | {100 * share:+.1f} %{' (missed)' if share > GOAL else ''}"
            for seconds, default, share in times.values()
        ]
        lines.append(f"| {size} | {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cost_misses() -> str:
    """Count the misses of the target."""
    costs, parts = _costs(), []
    for kind, name in PASSES.items():
        for mode in MODES:
            shares = [times[kind][2] for _, mode_of_row, times in costs if mode_of_row == mode]
            missed = [share for share in shares if share > GOAL]
            worst = f", at worst {100 * max(missed):+.1f} %" if missed else ""
            parts.append(f"{name}, {mode}: {len(missed)} of {len(shares)} sizes{worst}")
    return f"Misses of the target of {100 * GOAL:g} %: {'; '.join(parts)}."


UNEVEN = {
    "har": "HAR-2, 48 of 128 samples (accuracy)",
    "pixels": "MNIST pixels, 157 of 784 (accuracy)",
    "period": "period of a noisy sine, 100 samples (MSE)",
}


def uneven() -> str:
    """The default layer with timespans and others with the time as features: mean, and difference from timespans."""
    rows = _load("uneven-times.json")
    models = list(dict.fromkeys(row["model"] for row in rows))
    tuned = {model: ", rate tuned" if model.startswith("nn.") else ", rate 0.016" for model in models}
    names = [f"{'CoRNN, `timespans`' if model == 'CoRNN' else model}{tuned[model]}" for model in models]
    lines = [f"| task | {' | '.join(names)} | minus GRU |", "| --- |" + " ---: |" * (len(models) + 1)]
    for task, name in UNEVEN.items():
        results = {model: _select(rows, task, model=model) for model in models}
        ours = results["CoRNN"]
        # The seed with which the rates were tuned is not among those of ours.
        cells = [_format(task, {seed: scores[seed] for seed in ours}) for scores in results.values()]
        lines.append(f"| {name} | " + " | ".join([*cells, _difference(task, ours, results["nn.GRU"])]) + " |")
    return "\n".join(lines)


TABLES = {
    "gru-5000": gru_note,
    "default-comparison": comparison,
    "default-parameters": parameters,
    "default-centred": centred,
    "default-ideas": ideas,
    "default-durations": durations,
    "default-uneven": uneven,
    "default-search": search,
    "default-rates": rates,
    "default-optimisers": optimisers,
    "default-widths": widths,
    "default-rates-by-width": rates_by_width,
    "default-rates-by-features": rates_by_features,
    "default-lengths": lengths,
    "default-sizes": sizes,
    "default-cost": cost,
    "default-cost-misses": cost_misses,
    "default-long-adding": long_adding,
}
