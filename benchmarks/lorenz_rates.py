"""The learning rate of Lorenz-96, chosen by validation alike for coRNN and the LSTM: one grid, one budget, one seed.

python benchmarks/lorenz_rates.py --json results/lorenz96-rates.json
python benchmarks/lorenz_rates.py --force 0.9 --json results/lorenz96-rates-0.9.json
"""

import argparse
import json
import tempfile
from pathlib import Path

from cornn._machine import machine
from cornn._source import source
from cornn.lab.recipes import resolve
from cornn.lab.training import fit

RATES = (3e-3, 6e-3, 1e-2, 2e-2, 4e-2, 8e-2)
EPOCHS = 100
MODELS = {"cornn": 64, "lstm": 44}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--force", type=float, default=8.0)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    rows = []
    for model in options.models:
        for rate in RATES:
            changes = {"model": model, "hidden_size": MODELS[model], "learning_rate": rate, "epochs": EPOCHS}
            config = resolve("lorenz96", force=options.force, device=options.device, **changes)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    validation = fit(config, Path(folder) / "run").result["validation"]
                except RuntimeError:  # it diverged
                    validation = None
            rows.append({**changes, "validation": validation})
            print(rows[-1], flush=True)
    content = {"task": f"lorenz96, F = {options.force:g}", "rows": rows, "machine": machine(), **source()}
    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
