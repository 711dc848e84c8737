"""Check the GPU backend on one device, and measure its time per step.

    python benchmarks/cuda_device.py [--json PATH] [--only check|time] [--repeats 20]

First a table of relative errors against float64, then times by device events, medians after warm-up, next to cuDNN's
LSTM in exact fp32, then what several sequences in a block and several models in a launch cost.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from cornn import engine
from cornn._source import source
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.contract import BackwardInputs, Needs, Operands, Request

UPDATE = "cornn/explicit/tanh"
NAMES = ("input", "state", "input_weight", "bias", "weight", "parameters", "timespans")
# steps, batch, hidden, options
CHECKS = [
    *((60, 7, hidden, {}) for hidden in (1, 20, 33, 64, 96, 127, 128, 129, 200, 256, 257, 384, 511, 512)),
    *((60, 7, hidden, {"ragged": True, "spans": True}) for hidden in (20, 64, 128, 200, 256, 512)),
    *((60, 7, hidden, {"ragged": True, "update": "cornn/implicit/tanh"}) for hidden in (20, 64, 128, 256, 512)),
    *((60, 7, hidden, {"features": features}) for hidden in (20, 64, 128) for features in (1, 2, 4, 9)),
    *((12, batch, 128, {"ragged": True, "features": features}) for batch in (1, 133, 300, 1024) for features in (1, 9)),
    *((12, batch, 256, {}) for batch in (1, 133)),
    *((steps, 3, 128, {}) for steps in (1, 2, 5000)),
    (5000, 3, 256, {}),
    (784, 120, 128, {}),
    (784, 120, 256, {}),
    (784, 120, 512, {}),
]
# steps, batch, hidden, features, most microseconds a step forward and backward, most ms with all gradients
TIMES = [
    (784, 120, 128, 1, 0.35, 0.38, 0.75),
    (784, 120, 256, 1, 1.0, 1.1, 2.3),
    (784, 120, 512, 1, 3.5, 4.0, 8.5),
    (5000, 50, 128, 2, 0.33, 0.36, 4.0),
    (128, 64, 64, 9, 0.25, 0.28, 0.15),
    (784, 1024, 128, 1, 3.2, 3.5, 6.5),
    (784, 1, 128, 1, None, None, None),
    (784, 1, 256, 1, None, None, None),
]


def arguments(steps, batch, hidden, features, *, spans=False, ragged=False, groups=0):
    random = torch.Generator().manual_seed(steps + batch + hidden)
    group = (groups,) if groups else ()

    def draw(*shape):
        return torch.randn(*group, *shape, generator=random)

    dt = torch.rand(*group, 1, hidden, generator=random) * 0.05 + 0.03
    others = torch.rand(*group, 2, hidden, generator=random) * 2 + 1
    inputs = {
        "input": draw(steps, batch, features),
        "state": draw(2, batch, hidden) * 0.3,
        "input_weight": draw(hidden, features) / features**0.5,
        "bias": draw(hidden) * 0.3,
        "weight": draw(hidden, 2 * hidden) / (2 * hidden) ** 0.5,
        "parameters": torch.cat((dt, others), -2),
        "timespans": torch.rand(*group, steps, batch, generator=random) * 2 if spans else None,
    }
    lengths = torch.randint(0, steps + 1, (batch,), generator=random) if ragged else None
    return {name: None if x is None else x.cuda() for name, x in inputs.items()}, lengths


def results(inputs, lengths, dtype, backend, update):
    inputs = {name: None if x is None else x.to(dtype).detach().requires_grad_() for name, x in inputs.items()}
    output, parts = engine.run(**inputs, lengths=lengths, update=engine.UPDATES[update], backend=backend)
    last = torch.cat(parts)
    random = torch.Generator().manual_seed(1)
    value = sum((x * torch.randn(x.shape, generator=random).to(x)).sum() for x in (output, last))
    trained = {name: x for name, x in inputs.items() if x is not None}
    gradients = torch.autograd.grad(value, list(trained.values()))
    return {"output": output, "last": last} | dict(zip(trained, gradients, strict=True))


def distance(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return ((actual.double() - expected).norm() / expected.norm().clamp_min(1e-30)).item()


def check() -> list[dict]:
    rows = []
    for steps, batch, hidden, options in CHECKS:
        update = options.get("update", UPDATE)
        others = {k: v for k, v in options.items() if k != "update"}
        inputs, lengths = arguments(steps, batch, hidden, **{"features": 3, **others})
        row = {"steps": steps, "batch": batch, "hidden": hidden, **options}
        start = time.perf_counter()
        try:
            expected = results(inputs, lengths, torch.float64, "portable", update)
            poison = torch.full((1 << 27,), torch.nan, device="cuda")
            del poison
            actual = results(inputs, lengths, torch.float32, "cuda", update)
            repeated = results(inputs, lengths, torch.float32, "cuda", update)
            errors = {k: distance(actual[k], expected[k]) for k in expected}
            worst = max(v / (1e-5 if k in ("output", "last") else 5e-5) for k, v in errors.items())
            is_deterministic = all(torch.equal(actual[k], repeated[k]) for k in actual)
            row |= {
                "errors": errors,
                "repeats": is_deterministic,
                "good": is_deterministic and worst <= max(1, steps / 1000),
            }
            text = " ".join(f"{k} {v:.0e}" for k, v in errors.items())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            row |= {"failed": text, "good": False}
        mark = "ok  " if row["good"] else "FAIL"
        print(
            f"{mark} {steps:5} {batch:5} {hidden:4} {options} {text} [{time.perf_counter() - start:.1f} s]", flush=True
        )
        rows.append(row)
    return rows


def median(call: Callable[[], object], repeats: int) -> float:
    """Return the median milliseconds of one call, by device events."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def capture(call: Callable[[], object]) -> Callable[[], None]:
    """Capture a call as a CUDA graph: replaying it takes the time of the device, without that of Python."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call()

    def replay(output=output):
        graph.replay()

    return replay


def passes(steps, batch, hidden, groups=0, features=1) -> tuple[Callable, Callable]:
    """Return one forward and one backward pass of the kernels alone; the forward kernel itself maps few features."""
    inputs, _ = arguments(steps, batch, hidden, features, groups=groups)
    place = (groups,) if groups else ()
    moved = ("input", "state", "parameters") if groups else ()
    of = Operands(**inputs | {name: inputs[name].movedim(0, 1).contiguous() for name in moved}, lengths=None)
    request = Request(engine.UPDATES[UPDATE], keep=True)
    gradient = torch.randn(steps, *place, batch, hidden, device="cuda")
    output, last, trail = cuda.forward(of, request)
    after, needs = BackwardInputs(gradient, last, output, trail), Needs(False, True, False, False, False, False, False)
    makes_drive = cuda.makes_drive(request.update, hidden, features)
    results = trail[-1], trail[0], output, last

    def forward():
        cuda.run_kernel("forward", of, results, (True,), request, makes_drive=makes_drive)

    def backward():
        return cuda.backward_steps(of, after, request, needs)

    return forward, backward


def whole(steps, batch, hidden, features, parameters: bool) -> Callable:
    """Forward and backward through the operator, with a gradient at every step; all gradients, or those of a layer."""
    inputs, _ = arguments(steps, batch, hidden, features)
    leaves = ["input_weight", "bias", "weight"] + (["input", "state", "parameters"] if parameters else [])
    for name in leaves:
        inputs[name].requires_grad_()
    gradient = torch.randn(steps, batch, hidden, device="cuda")

    def call():
        output, _ = engine.run(**inputs, update=engine.UPDATES[UPDATE], backend="cuda")
        return torch.autograd.grad(output, [inputs[name] for name in leaves], gradient)

    return call


def lstm(steps, batch, hidden, features) -> tuple[Callable, Callable]:
    layer = nn.LSTM(features, hidden, device="cuda")
    input = torch.randn(steps, batch, features, device="cuda")
    gradient = torch.randn(steps, batch, hidden, device="cuda")

    def both():
        return torch.autograd.grad(layer(input)[0], list(layer.parameters()), gradient)

    return lambda: layer(input), both


@contextmanager
def rows_in_a_block(rows: int) -> Iterator[None]:
    chosen, cuda.plan = cuda.plan, lambda hidden, *_: chosen(hidden, 1, 1, 1, (rows,))
    cuda._prepare.cache_clear()
    try:
        yield
    finally:
        cuda.plan = chosen
        cuda._prepare.cache_clear()


def measure(repeats: int) -> list[dict]:
    table = []
    for steps, batch, hidden, features, most_forward, most_backward, most_both in TIMES:
        forward, backward = passes(steps, batch, hidden, features=features)
        row = {"steps": steps, "batch": batch, "hidden": hidden}
        row["forward"] = median(capture(forward), repeats) * 1e3 / steps
        row["backward"] = median(capture(backward), repeats) * 1e3 / steps
        row["both"] = median(whole(steps, batch, hidden, features, False), repeats)
        row["both_graph"] = median(capture(whole(steps, batch, hidden, features, False)), repeats)
        row["both_all"] = median(whole(steps, batch, hidden, features, True), repeats)
        row["both_all_graph"] = median(capture(whole(steps, batch, hidden, features, True)), repeats)
        lstm_forward, lstm_both = lstm(steps, batch, hidden, features)
        row["lstm_forward"] = median(lstm_forward, max(3, repeats // 4)) * 1e3 / steps
        row["lstm_both"] = median(lstm_both, max(3, repeats // 4))
        row["goals"] = [most_forward, most_backward, most_both]
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        table.append(row)
    return table


def measure_rows(repeats: int) -> list[dict]:
    """Measure several sequences per block and models per launch: microseconds per step, forward and backward."""
    table = []
    for steps, batch, hidden, groups in [
        (256, 120, 128, 0),
        (256, 240, 128, 0),
        (256, 1024, 128, 0),
        (256, 50, 128, 10),
        (128, 64, 64, 0),
        (128, 64, 64, 10),
        (128, 1024, 64, 0),
        (128, 1024, 32, 0),
    ]:
        row = {"steps": steps, "batch": batch, "hidden": hidden, "groups": groups}
        row["chosen"] = [median(capture(f), repeats) * 1e3 / steps for f in passes(steps, batch, hidden, groups)]
        for rows in cuda.ROWS:
            with rows_in_a_block(rows):
                times = [median(capture(f), repeats) * 1e3 / steps for f in passes(steps, batch, hidden, groups)]
            row[f"rows {rows}"] = times
        print({k: [round(x, 3) for x in v] if isinstance(v, list) else v for k, v in row.items()}, flush=True)
        table.append(row)
    return table


def parse_options(description: str | None) -> argparse.Namespace:
    """Parse the options of a script that checks and times kernels, and make all products exact fp32."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=["check", "time"])
    parser.add_argument("--repeats", type=int, default=20)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    return parser.parse_args()


def main() -> None:
    options = parse_options(__doc__)
    record: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, **source()}
    checked = [] if options.only == "time" else check()
    record["checks"] = checked
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")
    if options.only != "check":
        record["times"] = measure(options.repeats)
        record["rows"] = measure_rows(options.repeats)
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")
        print("\n    T     B    m | us a step: forward, backward | ms both (graph), all (graph) | LSTM us, ms, ratio")
        for row in record["times"]:
            forward, backward, both = (f"<{goal}" if goal else "" for goal in row["goals"])
            print(
                f"{row['steps']:5} {row['batch']:5} {row['hidden']:4} | {row['forward']:6.3f} {forward:5} "
                f"{row['backward']:6.3f} {backward:5} | {row['both']:6.3f} ({row['both_graph']:6.3f}) "
                f"{row['both_all']:6.3f} ({row['both_all_graph']:6.3f}) {both:5} | {row['lstm_forward']:6.2f} "
                f"{row['lstm_both']:7.2f} {row['lstm_both'] / row['both_all']:5.1f}x"
            )
    bad = [row for row in checked if not row["good"]]
    print(f"{len(checked) - len(bad)} of {len(checked)} checks good")
    for row in bad:
        print("FAIL", row)


if __name__ == "__main__":
    main()
