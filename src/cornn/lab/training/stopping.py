"""Save and exit on SIGINT, SIGTERM and SIGHUP."""

import signal
import threading
from types import FrameType
from typing import Any

import torch

from cornn._signals import SignalStop

# Processes that share a batch must agree on when to save and stop, for which a GPU waits.
STEPS_BETWEEN_AGREEMENTS = 10


class Stopped(SignalStop):
    """Training was asked to stop; a checkpoint was written."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number, f"stopped by {signal.Signals(signal_number).name}; a checkpoint is saved")


class Stopping:
    """A context in which the first signal is recorded; a second one has its usual effect."""

    signals = tuple(one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP"))  # Windows has two

    def __init__(self, fabric: Any) -> None:
        self.fabric = fabric
        self.received = 0
        self.previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():
            # nohup ignores SIGHUP, and so does the training then.
            handled = [number for number in self.signals if signal.getsignal(number) is not signal.SIG_IGN]
            self.previous_handlers = {number: signal.signal(number, self._receive) for number in handled}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        for other, handler in self.previous_handlers.items():
            signal.signal(other, handler)

    def find_request(self, step: int, save: bool) -> tuple[int, bool]:
        """Return the signal that requests a stop, or 0, and whether to save; the same in all processes. `save`: whether
        a checkpoint of this process is due."""
        if self.fabric.world_size == 1:
            return self.received, save or self.received > 0
        if step % STEPS_BETWEEN_AGREEMENTS:
            return 0, False
        flags = torch.tensor([float(self.received), float(save)], device=self.fabric.device)
        signal_number, anyone = self.fabric.all_reduce(flags, reduce_op="max").tolist()
        return int(signal_number), anyone > 0 or signal_number > 0
