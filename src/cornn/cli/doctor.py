"""cornn doctor"""

from dataclasses import dataclass

import torch
from rich.table import Table
from rich.text import Text

from cornn import __version__, engine
from cornn._machine import machine
from cornn.cli.console import screen

__all__ = ["DoctorCommand"]


@dataclass(frozen=True)
class DoctorCommand:
    """Say what can run the recurrence on this machine, and why the rest cannot."""

    def run(self) -> None:
        console = screen()
        console.print(
            f"cornn {__version__}, " + ", ".join(f"{key} {value}" for key, value in machine().items() if value)
        )
        devices = ["cpu"] + [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        table = Table("device", "backend", "", "why", box=None, header_style="bold")
        for device in devices:
            problem = engine.Problem(
                "cornn/explicit/tanh", torch.device(device), torch.float32, 1, 784, 120, 128, False
            )
            chosen, _ = engine.choose(problem)
            for name, backend in engine.BACKENDS.items():
                usable, reason = backend.usable(problem)
                word = Text("chosen", "green") if name == chosen else "usable" if usable else Text("no", "yellow")
                table.add_row(device, name, word, reason)
        console.print(table)
        console.print(
            "Asked for 784 steps of 120 sequences with 128 neurons in float32; other sizes may differ.", style="dim"
        )
