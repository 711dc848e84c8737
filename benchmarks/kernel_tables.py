"""The tables of single kernels: what a step is made of, what tensor cores bring, what one sample of a stream costs."""

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"


def loops() -> str:
    """The instructions of a step, counted in the machine code."""
    content = json.loads((RESULTS / "profile-cuda.json").read_text(encoding="utf8"))["loops"]
    lines = [
        "| kernel | neurons | instructions a step and warp | multiply-adds | others |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in content["kernels"]:
        others = row["instructions"] - row["multiply_adds"]
        lines.append(
            f"| {row['kernel']} | {row['hidden']} | {row['instructions']} | {row['multiply_adds']} | {others} |"
        )
    return "\n".join(lines)


def tensor_cores() -> str:
    """Exact fp32 beside tf32 and bfloat16 on tensor cores."""
    content = json.loads((RESULTS / "speed-tensor.json").read_text(encoding="utf8"))
    worst = {"exact": "-"}
    for precision in ("tf32", "bf16"):
        found = max(row["float64"] for row in content["errors"] if row["precision"] == precision)
        worst[precision] = f"{found:.0e}"
    lines = [
        "| steps, batch, neurons | precision | forward, µs a step | backward, µs a step | both, ms | exact ÷ "
        "| worst error |",
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


def speed_stream() -> str:
    """Microseconds a sample."""
    path = RESULTS / "speed-stream.json"
    if not path.exists():
        return "There is no record yet."
    rows = json.loads(path.read_text(encoding="utf8"))["rows"]
    names = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [f"| neurons | {' | '.join(names)} |", "| ---: |" + " ---: |" * len(names)]
    for hidden in dict.fromkeys(row["hidden"] for row in rows):
        found = {row["contender"]: row["us"] for row in rows if row["hidden"] == hidden}
        lines.append(f"| {hidden} | {' | '.join(f'{found[name]:.1f}' for name in names)} |")
    return "\n".join(lines)


TABLES = {"loops": loops, "tensor-cores": tensor_cores, "speed-stream": speed_stream}
