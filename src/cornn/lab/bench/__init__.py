"""How long a sequence takes, and how much memory: every backend beside a plain loop and PyTorch's own layers.

`cases.py` says what is measured and against whom, `measure.py` how, `sweep.py` how the cost grows with one size. The
command `cornn bench` prints it.
"""

from cornn.lab.bench.cases import CASES, QUICK, Case, contenders
from cornn.lab.bench.measure import Figure, compare, record
from cornn.lab.bench.sweep import SWEEPS, Point, Sweep, follow

__all__ = [
    "CASES",
    "QUICK",
    "SWEEPS",
    "Case",
    "Figure",
    "Point",
    "Sweep",
    "compare",
    "contenders",
    "follow",
    "record",
]
