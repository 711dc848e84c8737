"""What the outputs of an estimator mean, for exports."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["OutputSpec"]


@dataclass(frozen=True, eq=False)
class OutputSpec:
    """What the raw outputs of an estimator mean: `answer = scale * output + offset`.

    Args:
        meaning: "classes": one logit per class, the largest of which is the answer; "numbers": the targets; "changes":
            by how much the next values differ from the last known ones.
        scale: Factor of each output, shape (outputs,).
        offset: Offset of each output, shape (outputs,).
        classes: The labels, in the order of the outputs; empty unless `meaning` is "classes".
    """

    meaning: Literal["classes", "numbers", "changes"]
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]
    classes: tuple[Any, ...] = ()
