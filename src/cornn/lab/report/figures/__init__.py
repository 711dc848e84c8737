"""Figures, as functions that return a matplotlib figure; `save` writes one as SVG and PNG."""

from cornn.lab.report.figures.assumptions import assumptions
from cornn.lab.report.figures.lags import lags
from cornn.lab.report.figures.lorenz import lorenz96
from cornn.lab.report.figures.memory import memory
from cornn.lab.report.figures.neurons import illustration
from cornn.lab.report.figures.spectrum import spectrum
from cornn.lab.report.figures.statements import statements
from cornn.plots.style import save

__all__ = ["FIGURES", "save"]

FIGURES = {
    "illustration": illustration,
    "lorenz96": lorenz96,
    "assumptions": assumptions,
    "lags": lags,
    "statements": statements,
    "memory": memory,
    "spectrum": spectrum,
}
"""Name -> drawing function; `assumptions` takes run folders."""
