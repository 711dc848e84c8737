"""Data sets in their publishers' layouts: finding, downloading, verifying, reading and caching them.

Needs numpy and the standard library only. One module per set; `places` knows the folders.
"""

from cornn.lab.data.places import find_folder

__all__ = ["find_folder"]
