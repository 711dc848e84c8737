"""Numbers with their nouns."""

__all__ = ["format_count"]


def format_count(number: float, noun: str, plural: str | None = None) -> str:
    """Return "1 step", "2 steps" or "1,000 steps"; `plural` is for nouns that do not just add an s."""
    words = noun if number == 1 else plural or f"{noun}s"
    return f"{number:,} {words}" if isinstance(number, int) else f"{number:,g} {words}"
