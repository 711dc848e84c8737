"""The headline results of the README, each with its most important limitation."""

import json
import statistics
from pathlib import Path

from cornn.lab import records
from cornn.lab.recipes import PUBLISHED
from cornn.lab.report import comparison

RESULTS = Path(__file__).resolve().parents[1] / "results"


def headlines() -> str:
    """Three results from the records, as a list."""
    return "\n".join((_long_memory(), _permuted_images(), _microcontroller()))


def _long_memory() -> str:
    contests = {contest.name: contest for contest in comparison.read(RESULTS)}
    rows = {name: {row.name: row for row in contest.rows} for name, contest in contests.items()}
    longest = rows["adding-5000"]
    ours, gru, lstm = (longest[name] for name in ("cornn-memory", "gru", "lstm"))
    shorter = (rows[name] for name in ("adding-500", "adding-2000"))
    pairs = [[statistics.fmean(models[name].tests) for name in ("gru", "cornn-memory")] for models in shorter]
    errors = " and ".join(f"{gru_error:.4f} against {our_error:.4f}" for gru_error, our_error in pairs)
    record = contests["adding-5000"].record
    return (
        f"- **Long memory.** With equal tuning budgets and {record['hidden_size']} units, coRNN with our "
        f"long-memory recipe solves the adding problem over 5,000 steps from {_count(ours.solved)} seeds; the GRU from "
        f"{_count(gru.solved)}, the LSTM from {_count(lstm.solved)} ([record](results/compare/adding-5000.json), "
        "[all models](docs/rivals.md)). *But:* at 500 and 2,000 steps a GRU is as quick and more precise (MSE "
        f"{errors}); tuning trials had {record['trial']} training steps, too few for some models; "
        "and our recipe is given the sequence length, the mean of the input and its own Adam beta2."
    )


def _count(solved: str | None) -> str:
    return (solved or "").split(",")[0]


def _permuted_images() -> str:
    runs = [record for record in records.read(RESULTS, "psmnist") if _is_headline(record["config"])]
    tests = [record["result"]["test"] for record in runs]
    paper = next(row.figure for row in PUBLISHED["psmnist"] if (row.model, row.units) == ("coRNN", 128))
    shifted, fixed = (_validation(shift) for shift in (1, 0))
    return (
        f"- **Permuted MNIST, 128 neurons.** {statistics.fmean(tests):.2f} ± {statistics.stdev(tests):.2f} % over "
        f"{len(tests)} seeds, each with its own permutation; the paper's best is {paper:g} % "
        "([records](results/psmnist), [recipe](docs/better.md)). "
        "*But:* the recipe shifts training images by up to a pixel before permuting them, "
        f"which uses what the permutation hides; without it validation fell from {shifted:.2f} to {fixed:.2f} % (one "
        "seed, 20 epochs)."
    )


def _is_headline(config: dict) -> bool:
    """Tell whether a run is of the recipe better-128 as it stands, with a permutation per seed."""
    own = config["task"].get("permutation") == "own"
    return config["recipe"] == "better-128" and own and not records.changed_settings(config)


def _validation(shift: int) -> float:
    """Return the validation accuracy of the search run of better-128 that changes at most the shift."""
    (found,) = (
        record["result"]["validation"]
        for record in records.read(RESULTS / "search", "psmnist")
        if record["config"]["recipe"] == "better-128"
        and record["config"]["settings"]["hidden_size"] == 128
        and records.changed_settings(record["config"]).keys() <= {"epochs"}
        and record["config"]["task"].get("shift", 0) == shift
        and not record["config"]["task"].get("warp", 0)
    )
    return found


def _microcontroller() -> str:
    rows = json.loads((RESULTS / "microcontroller.json").read_text(encoding="utf8"))["rows"]
    by_code = {(row["model"], row["units"], row["code"], row["weights"]): row for row in rows}
    ours, rival = by_code["coRNN", 20, "cornn", "int8"], by_code["FastGRNN", 20, "ours", "float32"]
    plain = by_code["coRNN", 20, "cornn", "float32"]
    return (
        f"- **Microcontrollers.** A 20-neuron activity classifier takes {ours['flash']:,} bytes of flash and "
        f"{ours['state'] + ours['other_ram'] + ours['stack']} bytes of RAM in int8, with PyTorch's accuracy "
        f"({ours['accuracy']:.2f} %) on the test people ([record](results/microcontroller.json), "
        "[export](docs/export.md)). *But:* the Cortex-M is emulated, it is one run, and in float32 a FastGRNN of the "
        f"same size is smaller ({rival['flash']:,} against {plain['flash']:,} bytes) and more accurate "
        f"({rival['accuracy']:.2f} %)."
    )


TABLES = {"headlines": headlines}
