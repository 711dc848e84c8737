"""Export to C99 for microcontrollers: no libraries, no allocation, float32 or int8 weights."""

from cornn.export.c.check import Comparison
from cornn.export.c.export import CExport, COptions, to_c

__all__ = ["CExport", "COptions", "Comparison", "to_c"]
