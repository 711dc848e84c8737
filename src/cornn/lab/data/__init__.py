"""Data sets in their publishers' layouts: found, read, verified, kept parsed, downloaded.

Needs numpy and the standard library only. A module a set; `places` says where it is looked for.
"""

from cornn.lab.data.places import folder, user_cache

__all__ = ["folder", "user_cache"]
