"""How long a step takes: every backend beside a plain loop and PyTorch's own layers, in one run.

    python benchmarks/speed.py [--cases NAME ...] [--threads 1 2] [--device cpu|cuda] [--json results/speed-NAME.json]

Each figure is the median over repeats of one forward and backward pass with all gradients, after warm-up; on a GPU by
device events. Contenders take turns within a repeat, so that whatever else the machine does hits all alike.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from cornn import CoRNN, engine
from cornn.runs import machine


@dataclass(frozen=True)
class Case:
    batch: int
    hidden: int
    steps: int
    inputs: int = 1


CASES = {
    "psmnist-128": Case(120, 128, 784),
    "psmnist-256": Case(120, 256, 784),
    "har2-64": Case(64, 64, 128, 9),
    "adding-128": Case(50, 128, 500, 2),
    "one-128": Case(1, 128, 784),
}
LAYERS = {"nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU, "nn.RNN": nn.RNN}


def contenders(case: Case, device: str) -> dict[str, nn.Module]:
    """Name -> layer. The plain loop is autograd through the equations as they stand."""
    layers = {name: layer(case.inputs, case.hidden, device=device) for name, layer in LAYERS.items()}
    layers |= {"plain loop": CoRNN(case.inputs, case.hidden, backend="reference", device=device)}
    example = torch.zeros(case.steps, case.batch, case.inputs, device=device)
    for name in engine.BACKENDS:
        layer = CoRNN(case.inputs, case.hidden, backend=name, device=device)
        try:
            layer(example[:2])
        except RuntimeError as error:
            print(f"{name}: left out ({error})")
            continue
        layers[f"coRNN, {name}"] = layer
    return layers


def once(layer: nn.Module, input: torch.Tensor, device: str) -> float:
    """Seconds of one forward and backward pass."""
    layer.zero_grad(set_to_none=True)
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        layer(input)[0].sum().backward()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000
    began = time.perf_counter()
    layer(input)[0].sum().backward()
    return time.perf_counter() - began


def measure(case: Case, device: str, repeats: int, say: Callable[[str], None]) -> dict[str, float]:
    layers = contenders(case, device)
    random = torch.Generator().manual_seed(0)
    input = torch.randn(case.steps, case.batch, case.inputs, generator=random).to(device)
    times: dict[str, list[float]] = {name: [] for name in layers}
    for repeat in range(repeats + 1):
        for name, layer in layers.items():
            say(f"{name}, repeat {repeat} of {repeats}")
            seconds = once(layer, input, device)
            if repeat:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    records = []
    for threads in options.threads if options.device == "cpu" else [1]:
        torch.set_num_threads(threads)
        for name in options.cases:
            case = CASES[name]
            medians = measure(
                case, options.device, options.repeats, lambda text, name=name: print(f"\r{name}: {text:60}", end="")
            )
            plain, lstm = medians["plain loop"], medians["nn.LSTM"]
            print(f"\r{name}: {case}, {threads} threads{'':40}")
            for contender, seconds in sorted(medians.items(), key=lambda item: item[1]):
                print(
                    f"  {contender:20} {seconds * 1e3:9.2f} ms  {seconds / case.steps * 1e6:8.2f} µs a step  "
                    f"plain loop / it {plain / seconds:7.2f}   nn.LSTM / it {lstm / seconds:7.2f}"
                )
                records.append({"case": name, **case.__dict__, "threads": threads, "contender": contender})
                records[-1] |= {"seconds": seconds, "repeats": options.repeats}
    if options.json:
        content = {"measured": "forward and backward, all gradients, median", "machine": machine(), "rows": records}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
