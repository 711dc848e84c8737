"""Installation commands of the extras, for all messages that name one."""

__all__ = ["install_command", "missing_extra"]


def install_command(extra: str) -> str:
    """Return the command that installs an extra: with the released package, and in a clone of the repository."""
    return f'pip install "cornn[{extra}]" (in a clone: pip install ".[{extra}]")'


def missing_extra(extra: str, need: str, instead: str = "") -> ImportError:
    """Return the error to raise if a package of an extra is missing.

    Args:
        extra: Name of the extra in pyproject.toml.
        need: What needs which package, such as "the report needs Jinja2".
        instead: What to do without the package, such as "or leave it out with --no-report".
    """
    return ImportError(f"{need}: {install_command(extra)}{instead and f', {instead}'}")
