"""Time and memory per sequence of every backend, a plain loop and PyTorch's layers, for `cornn bench`.

`cases.py` has the sizes and the contenders, `measure.py` the measurement, `sweep.py` the growth of the cost with one
size, and `user_loop.py` the cost of a layer in a user's own loop.
"""

from cornn.lab.bench.cases import CASES, QUICK, Case, contenders
from cornn.lab.bench.measure import Measurement, compare, record
from cornn.lab.bench.sweep import SWEEPS, Point, Sweep, measure_sweep
from cornn.lab.bench.user_loop import COMPILED, LOOPS, MODES, measure_loops

__all__ = [
    "CASES",
    "COMPILED",
    "LOOPS",
    "MODES",
    "QUICK",
    "SWEEPS",
    "Case",
    "Measurement",
    "Point",
    "Sweep",
    "compare",
    "contenders",
    "measure_loops",
    "measure_sweep",
    "record",
]
