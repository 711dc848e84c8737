"""Run folders -> text, tables, figures."""

from cornn.report.curve import curve

__all__ = ["curve"]
