"""The seed of a `random_state` argument."""

import numbers
from typing import Any

from sklearn.utils import check_random_state

__all__ = ["read_seed"]


def read_seed(random_state: Any) -> int:
    """Return an integer as it is; draw a seed from a random state, or from numpy's global one if None."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
