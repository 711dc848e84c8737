"""cornn doctor"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cornn import __version__, engine
from cornn._machine import machine
from cornn._torch_private import TESTED, is_tested
from cornn.cli.console import line, screen
from cornn.engine.backends import c
from cornn.engine.backends.cuda.sizes import list_sizes

KERNELS = {
    "block": "a block holds the weights in registers",
    "cluster": "a cluster of blocks holds the weights",
    "grid": "a grid of blocks holds the weights in shared memory",
    "thread": "a thread per neuron and sequence",
}


@dataclass(frozen=True)
class DoctorCommand:
    """Show which backends can run the recurrence on this machine, and why the others cannot."""

    def run(self) -> None:
        console = screen()
        about = ", ".join(f"{key} {value}" for key, value in machine().items() if value)
        line(console, f"cornn {__version__}, {about}")
        devices = ["cpu"] + [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        table = Table("device", "backend", "status", "why", box=None, header_style="bold")
        for device in devices:
            problem = engine.Problem(
                engine.OSCILLATORS["explicit", "tanh"], torch.device(device), torch.float32, 1, 784, 120, 128, False
            )
            chosen, _ = engine.choose(problem)
            for name, backend in engine.BACKENDS.items():
                usable, reason = backend.usable(problem)
                word = Text("chosen", "green") if name == chosen else "usable" if usable else Text("no", "yellow")
                table.add_row(device, name, word, reason)
        console.print(table)
        console.print(
            "For 784 steps of 120 sequences with 128 neurons in float32; other sizes may differ.", style="dim"
        )
        for device in devices[1:]:
            _print_sizes(console, torch.device(device))
        for remark in _find_remarks():
            line(console, remark, style="yellow")


def _print_sizes(console: Console, device: torch.device) -> None:
    """Print which sizes the kernels of a GPU support."""
    properties = torch.cuda.get_device_properties(device)
    line(
        console,
        f"\n{device}: {properties.name}, compute capability {properties.major}.{properties.minor}, "
        f"{properties.multi_processor_count} multiprocessors, "
        f"{properties.shared_memory_per_block_optin // 1024} KB of shared memory per block",
    )
    table = Table("model", "precision", "neurons", "kernel", box=None, header_style="bold")
    for entry in list_sizes(device):
        neurons = "any" if entry.largest is None else f"{entry.smallest:,} to {entry.largest:,}"
        table.add_row(entry.model, entry.precision, neurons, KERNELS[entry.kernel])
    console.print(table)
    console.print("For other sizes, coRNN uses the graph backend and other models use PyTorch.", style="dim")


def _find_remarks() -> Iterator[str]:
    """Yield what makes this installation slower than it could be."""
    if not c.LIBRARY.exists():
        yield (
            "The C library is missing, so CPUs use the portable backend, which is slower. Install a wheel, or install "
            "gcc or clang and then cornn again from source."
        )
    if not is_tested():
        oldest, newest = (".".join(map(str, version)) for version in TESTED)
        yield (
            f"PyTorch {torch.__version__} is outside the tested range, {oldest} to {newest}: the recurrence runs "
            "through the registered operator, which gives the same results and costs more per call."
        )
