"""Record the results of finished runs: one small JSON file per run, without weights, under results/.

python benchmarks/record.py runs/adding-0001 [...] [--to results]
"""

import argparse
from pathlib import Path

from cornn.lab import records
from cornn.lab.runs import open_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, default=Path("results"))
    options = parser.parse_args()
    for path in options.runs:
        content = records.record(open_run(path))
        result = content["result"]
        print(f"{records.write(content, options.to)}: {result['metric']} {result['test']:.4f}")


if __name__ == "__main__":
    main()
