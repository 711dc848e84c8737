"""Lorenz-96 with five variables: predict the state 25 points ahead.

As in the paper: x_i' = (x_(i+1) - x_(i-2)) x_(i-1) - x_i + F; 128 trajectories of 2,000 points, 0.01 apart, for each of
training, validation and test, with uniform initial states in [F - 1/2, F + 1/2]^5. At every step the state 25 points
ahead is predicted; the metric is the root mean square of the error over that of the target. With F = 0.9 the flow
settles on a small cycle, with F = 8 it is chaotic. The trajectories are the same for every run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._cache import cache_folder
from cornn._extras import missing_extra
from cornn._random import generator
from cornn.lab.data import find_folder
from cornn.lab.data.cache import read_cached
from cornn.lab.tasks.task import Batch, Split, Task, TaskOptions

VARIABLES, TRAJECTORIES, POINTS, SPACING, AHEAD = 5, 128, 2000, 0.01, 25
SPLITS = ("training", "validation", "test")
STRONGEST = 100  # beyond, the solver takes minutes or does not end
TOLERANCE = 1e-12
"""Relative and absolute tolerance of the solver. At F = 8 chaos amplifies an error about ten thousand times."""


@dataclass(frozen=True)
class Lorenz96(TaskOptions):
    """Predict the state of the Lorenz-96 system 25 points ahead, at every step. Needs no data."""

    force: float = 8.0
    """The force F: with 0.9 the system settles on a small cycle, with 8 it is chaotic."""

    name: ClassVar[str] = "lorenz96"

    def check(self) -> None:
        if abs(self.force) > STRONGEST:
            problem = f" must lie between -{STRONGEST} and {STRONGEST}, got {self.force}"
            raise ArgumentError(Setting("force"), problem)

    def load(self, seed: int, data: Path | None = None) -> Task:
        arrays = paths(self.force, find_folder(data))
        splits = {
            name: Split(len(path), _make, {"path": torch.from_numpy(path).float()}) for name, path in arrays.items()
        }
        path = torch.from_numpy(arrays["training"])
        target = path[:, AHEAD:]
        middle = target.mean((0, 1))
        still = _nrmse(_score(path[:, :-AHEAD].transpose(0, 1), target.transpose(0, 1))).item()
        return Task(
            name="lorenz96",
            inputs=VARIABLES,
            outputs=VARIABLES,
            length=POINTS - AHEAD,
            input_mean=tuple(path[:, :-AHEAD].mean((0, 1)).tolist()),
            training=splits["training"],
            validation=splits["validation"],
            test=lambda: splits["test"],
            loss=torch.nn.functional.mse_loss,
            score=_score,
            reduce=_nrmse,
            metric="NRMSE",
            better="lower",
            trivial=_nrmse(_score(middle.expand_as(target.transpose(0, 1)), target.transpose(0, 1))).item(),
            trivial_words="for always answering the mean state",
            read="every",
            notes=(f"F = {self.force:g}: predicting no change has a training NRMSE of {still:.2g}",),
        )


def paths(force: float, where: Path) -> dict[str, np.ndarray]:
    """Return the trajectories of each split, (128, 2000, 5) in double precision, from the cache if possible."""
    about = f"{force!r} {TRAJECTORIES} {POINTS} {SPACING} {TOLERANCE}"
    folder = where if where.is_dir() else cache_folder()
    return read_cached(folder, f"lorenz96-{force:g}", [], lambda: _solve(force), about)


def flow(state: np.ndarray, force: float) -> np.ndarray:
    """Return the derivative of states (..., 5)."""
    before, twice_before, after = (np.roll(state, shift, -1) for shift in (1, 2, -1))
    return (after - twice_before) * before - state + force


def trajectories(start: np.ndarray, force: float, points: int) -> np.ndarray:
    """Integrate the flow from `start`, (size, 5), to (size, points, 5)."""
    try:
        from scipy.integrate import solve_ivp
    except ImportError:
        raise missing_extra("lab", "the Lorenz-96 task needs scipy") from None
    solution = solve_ivp(
        lambda time, state: flow(state.reshape(start.shape), force).ravel(),
        (0.0, SPACING * (points - 1)),
        start.ravel(),
        method="DOP853",
        t_eval=SPACING * np.arange(points),
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )
    if not solution.success:
        raise RuntimeError(f"the Lorenz-96 system with force {force} could not be integrated: {solution.message}")
    return solution.y.reshape(*start.shape, points).transpose(0, 2, 1)


def _solve(force: float) -> dict[str, np.ndarray]:
    start = torch.rand(
        len(SPLITS), TRAJECTORIES, VARIABLES, dtype=torch.float64, generator=generator(0, "lorenz96", "start")
    )
    solution = trajectories((start + (force - 0.5)).reshape(-1, VARIABLES).numpy(), force, POINTS)
    return dict(zip(SPLITS, solution.reshape(len(SPLITS), TRAJECTORIES, POINTS, VARIABLES), strict=True))


def _make(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    """Return a batch of the points that have a target, (1975, batch, 5), and their targets."""
    path = rows["path"].transpose(0, 1).contiguous()
    return Batch(path[:-AHEAD], path[AHEAD:])


def _score(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the sums of squares of error and target of each sequence, (batch, 2)."""
    squares = ((prediction - target).square(), target.square())
    return torch.stack([square.sum((0, 2), dtype=torch.float64) for square in squares], -1)


def _nrmse(scores: Tensor) -> Tensor:
    error, size = scores.sum(0)
    return (error / size).sqrt()
