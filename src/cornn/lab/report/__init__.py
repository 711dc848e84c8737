"""Run folders -> text, tables, figures."""

from cornn.plots.terminal import curve

__all__ = ["curve"]
