"""Tables of docs/choosing.md: suggested constants and effective ranks."""

from collections.abc import Callable

import torch

from cornn import theory
from cornn.lab.recipes import RECIPES
from cornn.theory.linear import stability_limit

LENGTHS, HIDDEN = (50, 100, 500, 1000, 5000), 64


def suggested() -> str:
    """Suggested constants by sequence length."""
    lines = [
        "| length | dt | epsilon | gamma | half-lives in steps | stability limit of dt |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for length in LENGTHS:
        constants = theory.suggest(length, HIDDEN)
        limit = stability_limit(constants.gamma, constants.epsilon).min().item()
        lines.append(
            f"| {length:,} | {constants.dt:.3g} | {constants.epsilon:.3g} "
            f"| {constants.gamma[-1]:.2g} to {constants.gamma[0]:.2g} "
            f"| {constants.half_lives[0]:,.0f} to {constants.half_lives[-1]:,.0f} | {limit:.2g} |"
        )
    return "\n".join(lines)


def held() -> str:
    """Effective rank of 128 uncoupled neurons by kind."""
    paper = RECIPES["psmnist"]["paper-128"].train.model
    lines = [
        "| length | the paper's constants for psMNIST-128 | `suggest` (overdamped) | `suggest` (underdamped) |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for length in (100, 784, 5000):
        kinds = [(paper.dt, torch.full((128,), paper.gamma), paper.epsilon)]
        for underdamped in (False, True):
            constants = theory.suggest(length, 128, underdamped=underdamped)
            kinds.append((constants.dt, constants.gamma, constants.epsilon))
        lines.append(
            f"| {length:,} | " + " | ".join(str(theory.effective_rank(*kind, length)) for kind in kinds) + " |"
        )
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"suggested": suggested, "held": held}
