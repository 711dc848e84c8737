"""The seed of a `random_state` argument."""

import numbers
from typing import Any

from sklearn.utils import check_random_state

from cornn._arguments import ArgumentError, Setting

__all__ = ["check_seed", "read_seed"]


def check_seed(random_state: Any) -> None:
    """Check that a `random_state` is not a negative number."""
    if isinstance(random_state, numbers.Integral) and random_state < 0:
        raise ArgumentError(Setting("random_state"), f" must not be negative, got {random_state!r}")


def read_seed(random_state: Any) -> int:
    """Return an integer as it is; draw a seed from a random state, or from numpy's global one if None."""
    check_seed(random_state)
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
