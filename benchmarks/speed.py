"""How long a sequence takes: `cornn bench` from a checkout. `python benchmarks/speed.py --help` says what it takes."""

import sys

from cornn.__main__ import main

if __name__ == "__main__":
    sys.argv.insert(1, "bench")
    main()
