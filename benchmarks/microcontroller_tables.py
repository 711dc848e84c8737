"""The table of exported code on an emulated Cortex-M4."""

from pathlib import Path

from cornn._json import read_json

RECORD = Path(__file__).resolve().parents[1] / "results" / "microcontroller.json"
CODES = {
    "cornn": "`cornn export`",
    "ours": "ours",
    "edgeml": "EdgeML's",
    "edgeml-single": "EdgeML's, with `tanhf`",
}


def microcontroller() -> str:
    """One row per program."""
    rows = read_json(RECORD)["rows"]
    lines = [
        "| model, code | weights | flash | RAM + stack | multiplications with weights | tanh and sigmoid "
        "| instructions per step: Cortex-M4, M3 | accuracy: PyTorch, C |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        functions = row["units"] * (1 if row["model"] == "coRNN" else 2)
        lines.append(
            f"| {row['model']}-{row['units']}, {CODES[row['code']]} | {row['weights']} | {row['flash']:,} "
            f"| {row['state'] + row['other_ram']:,} + {row['stack']:,} | {row['multiplications']['weights']:,} "
            f"| {functions} | {row['instructions']:,.0f}, {row['instructions_cortex_m3']:,.0f} "
            f"| {row['pytorch_accuracy']:.2f}, {row['accuracy']:.2f} |"
        )
    return "\n".join(lines)


TABLES = {"microcontroller": microcontroller}
