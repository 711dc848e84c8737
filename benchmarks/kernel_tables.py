"""The tables of single kernels: the parts of a training step, tensor cores, the cost of one sample of a stream."""

import statistics
from pathlib import Path

from cornn._json import read_json
from cornn.engine.backends.cuda.layout import LARGEST_CLUSTER
from cornn.engine.backends.cuda.weights import SMALLEST

RESULTS = Path(__file__).resolve().parents[1] / "results"


# Purpose -> prefix of a kernel's name; the products are those of BLAS.
_STEP = {
    "recurrence, forward": ("forward",),
    "recurrence, backward": ("backward",),
    "matrix products: weight gradients, head": ("void cutlass", "sm80_xmma", "void cublas", "void sgemm"),
    "optimiser": ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel",),
}


def step() -> str:
    """The parts of a training step, and an epoch next to the pass alone."""
    content = read_json(RESULTS / "step-cuda.json")
    speed = read_json(RESULTS / "speed-cuda.json")
    bare = next(row for row in speed["times"] if (row["steps"], row["batch"], row["hidden"]) == (784, 120, 128))
    left = content["kernels"]
    lines = ["| part of a training step | kernels | µs |", "| --- | ---: | ---: |"]
    for part, names in _STEP.items():
        matches = [row for row in left if row["kernel"].startswith(names)]
        left = [row for row in left if row not in matches]
        lines.append(
            f"| {part} | {sum(row['count'] for row in matches):.0f} | {sum(row['us'] for row in matches):.0f} |"
        )
    rest = content["step_us"] - sum(row["us"] for row in content["kernels"])
    lines.append(
        f"| batch, initial state, loss | {sum(row['count'] for row in left):.0f} | {sum(r['us'] for r in left):.0f} |"
    )
    lines.append(f"| gaps between kernels | | {rest:.0f} |")
    lines.append(f"| total | | {content['step_us']:.0f} |")
    epoch, steps = min(content["epochs"]), content["steps_an_epoch"]
    ratio = epoch / (steps * bare["both_graph"] / 1e3)
    lines += [
        "",
        f"An epoch of {steps} steps with its evaluation takes {epoch:.3f} s, {ratio:.2f} times the captured "
        f"forward and backward passes alone ({bare['both_graph']:.3f} ms each).",
    ]
    return "\n".join(lines)


def tensor_cores() -> str:
    """Exact fp32 compared with tf32 and bfloat16 on tensor cores."""
    content = read_json(RESULTS / "speed-tensor.json")
    worst = {"exact": "-"}
    for precision in ("tf32", "bf16"):
        error = max(row["float64"] for row in content["errors"] if row["precision"] == precision)
        worst[precision] = f"{error:.0e}"
    lines = [
        "| steps, batch, neurons | precision | forward, µs per step | backward, µs per step | both, ms "
        "| speed-up | largest error |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    exact = {}
    for row in content["times"]:
        size = f"{row['steps']}, {row['batch']}, {row['hidden']}"
        exact[size] = row["ms"] if row["precision"] == "exact" else exact[size]
        lines.append(
            f"| {size} | {row['precision']} | {row['us'][0]:.2f} | {row['us'][1]:.2f} | {row['ms']:.2f} "
            f"| {exact[size] / row['ms']:.1f} | {worst[row['precision']]} |"
        )
    return "\n".join(lines)


def _variants() -> dict[tuple[int, ...], dict[str, dict]]:
    """Return (steps, batch, neurons) -> variant of exact fp32 -> row."""
    by_size: dict[tuple[int, ...], dict[str, dict]] = {}
    for row in read_json(RESULTS / "exact-variants.json")["rows"]:
        if "variant" in row:
            by_size.setdefault(tuple(row["size"]), {})[row["variant"]] = row
    return by_size


def exact_variants() -> str:
    """Exact fp32 with and without products of pieces."""
    lines = [
        "| steps, batch, neurons | products in fp32, ms | gradients by pieces | steps by pieces | both "
        "| largest error: fp32, both |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (steps, batch, hidden), rows in _variants().items():
        used = _variant_used(hidden)
        cells = [f"**{row['ms']:.2f}**" if name == used else f"{row['ms']:.2f}" for name, row in rows.items()]
        errors = f"{rows['fp32']['error']:.1e}, {rows['both']['error']:.1e}"
        lines.append(f"| {steps}, {batch:,}, {hidden:,} | {' | '.join(cells)} | {errors} |")
    return "\n".join(lines)


def _variant_used(hidden: int) -> str:
    """Return which variant the backend uses on this GPU."""
    return "fp32" if hidden < SMALLEST else "weights" if hidden <= LARGEST_CLUSTER else "both"


def large_layers() -> str:
    """Layers above 128 neurons, in exact fp32 and on tensor cores."""
    path = RESULTS / "large-layers.json"
    if not path.exists():
        return "There is no record yet."
    lines = [
        "| steps, batch, neurons | exact: both (forward), ms | tf32 | bf16 | largest error: exact, tf32, bf16 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    sizes: dict[str, list[dict]] = {}
    newer = _variants()
    for row in read_json(path)["rows"]:
        size = row["steps"], row["batch"], row["hidden"]
        if row["precision"] == "exact" and size in newer:
            measured = newer[size][_variant_used(row["hidden"])]
            row |= {
                "seconds": measured["ms"] / 1e3,
                "forward_seconds": measured["forward_ms"] / 1e3,
                "error": measured["error"],
            }
        sizes.setdefault(f"{row['steps']}, {row['batch']:,}, {row['hidden']:,}", []).append(row)
    for size, rows in sizes.items():
        times = [f"{row['seconds'] * 1e3:.2f} ({row['forward_seconds'] * 1e3:.2f})" for row in rows]
        errors = [f"{row['error']:.0e}" for row in rows]
        lines.append(f"| {size} | {' | '.join(times)} | {', '.join(errors)} |")
    return "\n".join(lines)


def two_threads() -> str:
    """How many times faster two threads are than one, over blocks of a quarter of a second."""
    lines = ["| case | lowest | median | highest |", "| --- | ---: | ---: | ---: |"]
    for row in read_json(RESULTS / "two-threads.json")["rows"]:
        ratios = sorted(single / double for single, double in zip(row["one"], row["two"], strict=True))
        middle = statistics.median(ratios)
        lines.append(f"| {row['case']} | {ratios[0]:.2f} | {middle:.2f} | {ratios[-1]:.2f} |")
    return "\n".join(lines)


def speed_stream() -> str:
    """Microseconds per sample."""
    path = RESULTS / "speed-stream.json"
    if not path.exists():
        return "There is no record yet."
    rows = read_json(path)["rows"]
    names = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [f"| neurons | {' | '.join(names)} |", "| ---: |" + " ---: |" * len(names)]
    for hidden in dict.fromkeys(row["hidden"] for row in rows):
        times = {row["contender"]: row["us"] for row in rows if row["hidden"] == hidden}
        lines.append(f"| {hidden} | {' | '.join(f'{times[name]:.1f}' for name in names)} |")
    return "\n".join(lines)


LOOP_CONTENDERS = ("CoRNN", "CoRNN, given constants", "nn.LSTM", "nn.GRU", "nn.RNN")


def _user_loop(mode: str, contenders: tuple[str, ...] = LOOP_CONTENDERS) -> str:
    """Milliseconds of forward and backward, and of the forward pass, of layers in a user's loop in one mode."""
    rows = read_json(RESULTS / "user-loop-cuda.json")["rows"]
    compares = "nn.LSTM" in contenders
    lines = [
        f"| steps, batch, neurons, inputs | {' | '.join(contenders)} |" + (" LSTM ÷, RNN ÷ |" if compares else ""),
        "| --- |" + " ---: |" * (len(contenders) + compares),
    ]
    for case in dict.fromkeys(row["case"] for row in rows):
        by_contender = {row["contender"]: row for row in rows if row["case"] == case and row["mode"] == mode}
        if not by_contender:
            continue
        size = ", ".join(f"{next(iter(by_contender.values()))[key]}" for key in ("steps", "batch", "hidden", "inputs"))
        cells = [
            f"{by_contender[name]['seconds'] * 1e3:.2f} ({by_contender[name]['forward_seconds'] * 1e3:.2f})"
            for name in contenders
        ]
        if compares:
            ratios = (
                by_contender[name]["seconds"] / by_contender["CoRNN"]["seconds"] for name in ("nn.LSTM", "nn.RNN")
            )
            cells.append(", ".join(f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f} (missed)" for ratio in ratios))
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cells() -> str:
    """Microseconds of one step of a cell on a CPU: without gradients, and with those of all weights."""
    rows = read_json(RESULTS / "cell-cpu.json")["rows"]
    names = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [f"| sequences, neurons | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    for size in dict.fromkeys((row["batch"], row["hidden"]) for row in rows):
        by_contender = {row["contender"]: row for row in rows if (row["batch"], row["hidden"]) == size}
        times = [f"{by_contender[name]['forward_us']:.0f}, {by_contender[name]['both_us']:.0f}" for name in names]
        lines.append(f"| {size[0]}, {size[1]} | {' | '.join(times)} |")
    return "\n".join(lines)


TABLES = {
    "cells": cells,
    "user-loop-launched": lambda: _user_loop("launched"),
    "user-loop-captured": lambda: _user_loop("captured"),
    "user-loop-compiled": lambda: _user_loop("compiled", LOOP_CONTENDERS[:2]),
    "step": step,
    "tensor-cores": tensor_cores,
    "large-layers": large_layers,
    "exact-variants": exact_variants,
    "speed-stream": speed_stream,
    "two-threads": two_threads,
}
