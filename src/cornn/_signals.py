"""The exception and the exit code of a command that a signal stops."""

import signal

__all__ = ["SignalStop", "exit_code"]


class SignalStop(KeyboardInterrupt):
    """A signal requested an end."""

    def __init__(self, signal_number: int, message: str = "") -> None:
        super().__init__(message)
        self.signal_number = signal_number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a stopped process: 128 plus the number of the signal, SIGINT if unknown."""
    return 128 + (stop.signal_number if isinstance(stop, SignalStop) else signal.SIGINT)
