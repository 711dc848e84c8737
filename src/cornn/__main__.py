"""The program `cornn`."""

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run a command. What is wrong is said on one line, with exit code 2; CORNN_DEBUG=1 shows where it came from."""
    try:
        from cornn import cli
    except ImportError as error:
        sys.exit(f'cornn: the command line needs the package {error.name}: pip install "cornn[lab]"')
    try:
        cli.run(sys.argv[1:])
    except KeyboardInterrupt as stop:
        print("cornn: stopped. `cornn resume RUN` goes on from the last checkpoint.", file=sys.stderr)
        sys.exit(128 + getattr(stop, "signal_number", signal.SIGINT))
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        if os.environ.get("CORNN_DEBUG"):
            raise
        print(f"cornn: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
