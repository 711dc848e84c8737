"""Measure the time per sequence: `cornn bench` from a checkout. The options: `python benchmarks/speed.py --help`."""

import sys

from cornn.__main__ import main

if __name__ == "__main__":
    sys.argv.insert(1, "bench")
    main()
