"""How long a sequence takes, and how much memory: every backend beside a plain loop and PyTorch's own layers.

`cases.py` says what is measured and against whom, `measure.py` how, `sweep.py` how the cost grows with one size,
`user_loop.py` what a layer costs in a user's own loop. The
command `cornn bench` prints it.
"""

from cornn.lab.bench.cases import CASES, QUICK, Case, contenders
from cornn.lab.bench.measure import Figure, compare, record
from cornn.lab.bench.sweep import SWEEPS, Point, Sweep, follow
from cornn.lab.bench.user_loop import COMPILED, LOOPS, MODES, LoopFigure, follow_loops, loop_rows

__all__ = [
    "CASES",
    "COMPILED",
    "LOOPS",
    "MODES",
    "QUICK",
    "SWEEPS",
    "Case",
    "Figure",
    "LoopFigure",
    "Point",
    "Sweep",
    "compare",
    "contenders",
    "follow",
    "follow_loops",
    "loop_rows",
    "record",
]
