"""The table of docs/choosing.md: what `theory.suggest` says; benchmarks/tables.py writes it."""

from collections.abc import Callable

import torch

from cornn import theory
from cornn.lab.recipes import RECIPES
from cornn.theory.linear import stability_limit

LENGTHS, HIDDEN = (50, 100, 500, 1000, 5000), 64


def suggested() -> str:
    """Constants by the length of the sequences."""
    lines = [
        "| steps | dt | epsilon | gamma | half-lives, steps | dt is stable below |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for length in LENGTHS:
        found = theory.suggest(length, HIDDEN)
        limit = stability_limit(found.gamma, found.epsilon).min().item()
        lines.append(
            f"| {length:,} | {found.dt:.3g} | {found.epsilon:.3g} | {found.gamma[-1]:.2g} to {found.gamma[0]:.2g} "
            f"| {found.half_lives[0]:,.0f} to {found.half_lives[-1]:,.0f} | {limit:.2g} |"
        )
    return "\n".join(lines)


def held() -> str:
    """Numbers that 128 neurons hold about sequences, by their kind."""
    paper = RECIPES["psmnist"]["paper-128"]
    lines = ["| steps | the paper's of psMNIST-128 | `suggest` | `suggest`, ringing |", "| ---: | ---: | ---: | ---: |"]
    for length in (100, 784, 5000):
        kinds = [(paper.dt, torch.full((128,), paper.gamma), paper.epsilon)]
        for ringing in (False, True):
            found = theory.suggest(length, 128, underdamped=ringing)
            kinds.append((found.dt, found.gamma, found.epsilon))
        lines.append(
            f"| {length:,} | " + " | ".join(str(theory.effective_rank(*kind, length)) for kind in kinds) + " |"
        )
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"suggested": suggested, "held": held}
