"""The program `cornn`."""

import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from cornn import cli
from cornn._arguments import ArgumentError
from cornn._device_errors import describe_device_error
from cornn._signals import SignalStop, exit_code
from cornn._terminal import escape_controls
from cornn.cli.spelling import spell_option

__all__ = ["main"]


def main() -> None:
    """Run a command. Errors are one line on stderr with exit code 2; CORNN_DEBUG=1 shows the traceback."""
    warnings.showwarning = _show_warning
    try:
        with _exiting_on_signals(), _flushing_output():
            cli.run(sys.argv[1:])
    except BrokenPipeError:  # the reader, such as `head`, has what it wants
        sys.exit(128 + 13)  # SIGPIPE
    except KeyboardInterrupt as stop:
        print("cornn: stopped.", file=sys.stderr)
        sys.exit(exit_code(stop))
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("CORNN_DEBUG"):
            raise
        print(f"cornn: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


@contextmanager
def _flushing_output() -> Iterator[None]:
    """Flush stdout at the end, so that a full disk or a closed pipe ends the program like other errors."""
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails again on exit
            if isinstance(error, BrokenPipeError):
                raise
            raise OSError(f"cannot write the output ({error.strerror}): choose another place") from error


@contextmanager
def _exiting_on_signals() -> Iterator[None]:
    """Exit with a message on SIGTERM and SIGHUP, after training has saved a checkpoint. nohup still ignores SIGHUP."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SignalStop(number)

    known = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]  # Windows has no SIGHUP
    handled = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line."""
    print(f"cornn: warning: {_one_line(message)}", file=sys.stderr)


def _one_line(message: object) -> str:
    """Return a message as one line, without the C++ source locations in messages of PyTorch."""
    if isinstance(message, ArgumentError):
        message = message.spell(spell_option)
    text = (describe_device_error(message) if isinstance(message, Exception) else None) or str(message)
    text = re.sub(r"\[[^\[\]]*\.(?:cpp|cc|cu|h):\d+\](?: \S+ == \S+)?[ .]*", "", text)
    return escape_controls(" ".join(text.split()))


if __name__ == "__main__":
    main()
