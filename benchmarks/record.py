"""Keep what finished runs measured: one small JSON each, without weights.

python benchmarks/record.py runs/adding-0001 [...] --to results/adding
"""

import argparse
import json
import subprocess
from pathlib import Path

from cornn.runs import open_run


def record(path: Path) -> dict:
    run = open_run(path)
    if run.result is None:
        raise SystemExit(f"{path} has no result.json: its training has not finished")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    return {"config": run.config, "result": run.result, "curve": run.metrics(), "commit": commit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for path in options.runs:
        content = record(path)
        config = content["config"]
        size = "-".join(f"{key}{value}" for key, value in config["task"].items())
        name = f"{config['recipe']}-{size}-m{config['settings']['hidden_size']}-seed{config['seed']}.json"
        (options.to / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
        print(f"{options.to / name}: {content['result']['metric']} {content['result']['test']:.4f}")


if __name__ == "__main__":
    main()
