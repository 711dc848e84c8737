"""The updates: what happens to the state of a neuron once the matrix product of a step is done.

One file per update, and one entry in `UPDATES`. `register` adds an update of your own.
"""

from cornn.engine.updates.code import Code
from cornn.engine.updates.fastgrnn import FASTGRNN
from cornn.engine.updates.gated import GATED
from cornn.engine.updates.leaky import LEAKY
from cornn.engine.updates.lipschitz import LIPSCHITZ
from cornn.engine.updates.modrelu import MODRELU
from cornn.engine.updates.oscillator import OSCILLATORS, Oscillator, TimedUpdate, saved_activation
from cornn.engine.updates.spans import SPANS, Spans
from cornn.engine.updates.update import InPlace, Update, check_derivative, check_reference

__all__ = [
    "OSCILLATORS",
    "SPANS",
    "UPDATES",
    "Code",
    "InPlace",
    "Oscillator",
    "Spans",
    "TimedUpdate",
    "UnknownUpdateError",
    "Update",
    "find_update",
    "register",
    "saved_activation",
]

UPDATES: dict[str, Update] = {
    **{update.name: update for update in (*OSCILLATORS.values(), *SPANS.values())},
    "leaky": LEAKY,
    "fastgrnn": FASTGRNN,
    "gated": GATED,
    "modrelu": MODRELU,
    "lipschitz": LIPSCHITZ,
}
"""Name -> update."""

BUILT_IN = frozenset(UPDATES)


class UnknownUpdateError(ValueError):
    """There is no update of this name."""


def register(update: Update, *, replace: bool = False) -> Update:
    """Make an update known by its name, in this process.

    First its reference is called once, to check what it returns, and its code is compared with the reference in value
    and derivative, at random numbers in float64. Kernels are compiled when the update first runs: by NVRTC for a GPU,
    by a C compiler for a CPU. Without a compiler, and without code, the portable backend runs it. Saved models store
    the name alone, so register the update before you load one.

    Args:
        update: The update; its name must be new, unless `replace` is set.
        replace: Whether to replace a registered update of the same name, as a notebook cell that runs again does.
            Layers that exist already then use the new one. The updates of this package cannot be replaced.

    Returns:
        The same update.

    Raises:
        ValueError: If the name is taken, the reference does not return the next states, or code and reference
            disagree.

    Examples:
        >>> own = register(
        ...     Update(
        ...         "my-softsign",
        ...         {"gain": 1.0},
        ...         lambda pre, h, gain: gain * pre / (1 + pre.abs()),
        ...         Code(
        ...             where={"size": "1 + abs(pre)"},
        ...             step={"h": "gain * pre / size"},
        ...             derivative={"h": {"pre": "gain / (size * size)", "gain": "pre / size"}},
        ...         ),
        ...     )
        ... )
    """
    if UPDATES.get(update.name, update) is not update:
        if update.name in BUILT_IN:
            raise ValueError(f"there is an update {update.name!r} in cornn already: choose another name")
        if not replace:
            raise ValueError(
                f"there is an update {update.name!r} already: choose another name, or pass replace=True to replace it"
            )
    check_reference(update)
    check_derivative(update)
    UPDATES[update.name] = update
    return update


def find_update(name: str) -> Update:
    """Return the update of this name; raise UnknownUpdateError with the remedy if there is none."""
    if isinstance(name, Update):
        raise TypeError(f"an update is named by a string: pass {name.name!r}, and register the update first")
    if name not in UPDATES:
        names = [known for known, update in UPDATES.items() if not isinstance(update, TimedUpdate)]
        raise UnknownUpdateError(
            f"unknown update {name!r}: register it with cornn.engine.register before you use it or load a model that "
            f"uses it; known are {', '.join(names)}"
        )
    return UPDATES[name]
