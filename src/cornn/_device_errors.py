"""Describe errors of a GPU: too little memory, or a device that failed or disappeared."""

import sys

__all__ = ["DeviceError", "describe_device_error", "is_out_of_memory"]


class DeviceError(RuntimeError):
    """A GPU has too little memory, failed or disappeared. The message says what can be done."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}.{remedy}")
        self.reason = reason


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, is a lack of GPU memory."""
    return _find(error, "OutOfMemoryError") is not None


def describe_device_error(error: BaseException) -> str | None:
    """Describe an error of a GPU; None for other errors.

    A capture that runs out of memory raises a second error when it is closed, so earlier errors count too.
    """
    if isinstance(error, DeviceError):
        return str(error)
    if (cause := _find(error, "OutOfMemoryError")) is not None:
        return ". ".join(_first_line(cause).split(". ")[:2]).rstrip(".")
    cause = _find(error, "AcceleratorError")
    return None if cause is None else f"the GPU failed ({_first_line(cause)})"


def _find(error: BaseException | None, name: str) -> BaseException | None:
    torch = sys.modules.get("torch")  # without it the error is not PyTorch's
    while torch is not None and error is not None:
        if isinstance(error, getattr(torch, name)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
