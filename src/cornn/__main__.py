"""The program `cornn`."""

import os
import signal
import sys
import warnings
from typing import Any

from cornn import cli
from cornn._terminal import escape_controls

__all__ = ["main"]


def main() -> None:
    """Run a command. Errors are one line on stderr with exit code 2; CORNN_DEBUG=1 shows the traceback."""
    warnings.showwarning = _show_warning
    try:
        cli.run(sys.argv[1:])
    except KeyboardInterrupt as stop:
        print("cornn: stopped. `cornn resume RUN` continues from the last checkpoint.", file=sys.stderr)
        sys.exit(128 + getattr(stop, "signal_number", signal.SIGINT))
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        if os.environ.get("CORNN_DEBUG"):
            raise
        print(f"cornn: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, as errors are."""
    print(f"cornn: warning: {_one_line(message)}", file=sys.stderr)


def _one_line(message: object) -> str:
    return escape_controls(" ".join(str(message).split()))


if __name__ == "__main__":
    main()
