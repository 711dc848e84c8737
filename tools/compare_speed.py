"""Compare the speed of this checkout with another commit, on the CPU, as a table in Markdown.

    python tools/compare_speed.py main

Both are built, and they take turns in separate processes, so that a machine that slows down slows both. A ratio
above 1 means that this checkout is slower. Below the noise of the machine, 5 % or so, it means nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CASES = {
    "psMNIST, batch 120": (784, 120, 1, 128),
    "long, batch 1": (5000, 1, 1, 128),
    "short, batch 8": (20, 8, 3, 32),
}
"""Name -> steps, batch, inputs, neurons."""

MEASURE = """
import json, sys, time, torch
from cornn import CoRNN
torch.manual_seed(0)
found = {}
for name, (steps, batch, inputs, hidden) in json.loads(sys.argv[1]).items():
    layer, input = CoRNN(inputs, hidden), torch.randn(steps, batch, inputs)
    times, end = [], time.perf_counter() + 2
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        layer(input)[0].sum().backward()
        times.append(time.perf_counter() - start)
    found[name] = min(times)
print(json.dumps(found))
"""


def measure(source: Path) -> dict[str, float]:
    """Return the seconds of a training pass, by case."""
    command = [sys.executable, "-c", MEASURE, json.dumps(CASES)]
    variables = os.environ | {"PYTHONPATH": str(source / "src")}
    return json.loads(subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="branch, tag or commit to compare with")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", base, options.base], check=True)
        try:
            for source in (base, ROOT):
                build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
                subprocess.run(build, cwd=source, check=True, stdout=sys.stderr)
            turns = [(measure(base), measure(ROOT)) for _ in range(options.turns)]
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", base], check=True)
    print(f"| training pass | {options.base[:12]} (ms) | this (ms) | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name in CASES:
        before, after = (statistics.median(turn[side][name] for turn in turns) for side in (0, 1))
        print(f"| {name} | {before * 1e3:.2f} | {after * 1e3:.2f} | {after / before:.2f} |")


if __name__ == "__main__":
    main()
