"""What the page of coverage consists of: items with a status, and what each status means."""

from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "reproduced",
    "differs",
    "undecided",
    "no mean published",
    "other budget",
    "not run",
    "confirmed",
    "proven",
    "no counterexample",
    "vacuous",
    "false",
]

MEANINGS: dict[Status, str] = {
    "reproduced": "the 95 % interval of the difference of the means lies within ±0.5 points (±10 % for errors)",
    "differs": "it lies outside, or the claim does not hold in our runs",
    "undecided": "neither, or there is a single run",
    "no mean published": "run at full length and size; the paper has one number, of its best run or from another paper",
    "other budget": "run with equal units and tuning for all models, and for a shorter time than the paper's",
    "not run": "a layer exists, a run does not",
    "confirmed": "holds, and a test or record shows it",
    "proven": "a statement of the theory that is true",
    "no counterexample": "a statement that tests did not refute",
    "vacuous": "a statement whose assumptions never hold in the experiments, or contradict each other",
    "false": "a statement with a counterexample",
}
"""Status -> what it means."""


@dataclass(frozen=True)
class Item:
    """A claim, figure, table or statement of the paper.

    Attributes:
        place: Section or label of the paper's source.
        content: The claim.
        status: Its status, one of `MEANINGS`.
        note: The measured values, or a remark.
        evidence: Files and folders of the repository that show it.
    """

    place: str
    content: str
    status: Status
    note: str
    evidence: tuple[str, ...]
