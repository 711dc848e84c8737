"""C99 for microcontrollers: no library, no allocation, weights as float32 or int8."""

from cornn.export.c.check import Checked
from cornn.export.c.export import Options, Written, export

__all__ = ["Checked", "Options", "Written", "export"]
