"""The table of docs/choosing.md: what `theory.suggest` says; benchmarks/tables.py writes it."""

from collections.abc import Callable

from cornn import theory
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


TABLES: dict[str, Callable[[], str]] = {"suggested": suggested}
