"""Check the kernels of the paper's rivals on one GPU, and measure their time next to that of coRNN's.

    python benchmarks/rivals_device.py [--json results/speed-rivals.json] [--only check|time] [--repeats 20]

First relative errors against float64, of outputs, states and all gradients, with ragged lengths and given states. Then
times by device events, medians after warm-up, replayed as CUDA graphs: the kernels alone, and forward and backward with
the gradients of a layer's weights. What makes the recurrent matrix (a matrix exponential, say) is counted apart.
"""

import json
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import cuda_device
import torch
from torch import Tensor

from cornn import CoRNN, baselines, engine
from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn.baselines.layer import Cell
from cornn.engine import lem
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.contract import BackwardInputs, Needs, Operands, Problem, Request

STEPS, BATCH, HIDDEN = 784, 120, 128
GOAL = 1.3  # of coRNN's time
LAYERS = {name: layer for name, layer in baselines.LAYERS.items() if issubclass(layer.kind, Cell)}
# The same kernels as the layer before them, or nearly.
TWINS = ("antisymmetric", "dtriv")
# steps, batch, neurons
CHECKS = [
    *((100, 7, hidden) for hidden in (1, 20, 33, 127, 128, 129, 200, 256)),
    (1, 1, 20),
    (1, 120, 128),
    (2, 1, 128),
    (2, 120, 33),
    (100, 120, 128),
    (STEPS, BATCH, HIDDEN),
]
# As in tests/gpu: rounding of fp32 over some hundred steps. What jumps, such as modReLU at 0, is compared with
# PyTorch's own operations in fp32 as well.
OUTPUTS, GRADIENTS = 1e-5, 5e-5


class Model(NamedTuple):
    """A layer's weights as the engine takes them, on the GPU."""

    update: str
    input_weight: Tensor
    bias: Tensor | None
    weight: Tensor
    parameters: Tensor
    trained: tuple[str, ...]  # those of the four that come from parameters of the layer


NAMES = ("input_weight", "bias", "weight", "parameters")


def given(name: str, features: int, hidden: int) -> Model:
    layer = LAYERS[name](features, hidden, device="cuda")
    layer.reset_parameters(generator(hidden, name))
    cell = layer.cell()
    arguments = dict(zip(NAMES, cell.arguments(), strict=True))
    trained = tuple(key for key, value in arguments.items() if value is not None and value.requires_grad)
    return Model(cell.update, *(None if x is None else x.detach() for x in arguments.values()), trained)  # pyright: ignore


def served(update: str, hidden: int) -> tuple[bool, str]:
    where = torch.device("cuda", torch.cuda.current_device())
    return cuda.usable(Problem(engine.UPDATES[update], where, torch.float32, 1, STEPS, BATCH, hidden, False))


def results(
    what: Model, input: Tensor, state: Tensor, lengths: Tensor | None, dtype: torch.dtype, backend: str, every: bool
) -> dict[str, Tensor]:
    """Output, last state and gradients: of what a layer trains, or of `every` argument."""
    leaves = {"input": input, "state": state, **{key: getattr(what, key) for key in NAMES}}
    leaves = {key: None if x is None else x.to(dtype).detach() for key, x in leaves.items()}
    for key, x in leaves.items():
        if x is not None and (every or key in ("input", "state", *what.trained)):
            x.requires_grad_()
    update = engine.UPDATES[what.update]
    output, parts = engine.run(**leaves, lengths=lengths, update=update, backend=backend)  # pyright: ignore
    last = torch.cat(parts)
    random = torch.Generator().manual_seed(1)
    value = sum((x * torch.randn(x.shape, generator=random).to(x)).sum() for x in (output, last))
    trained = {key: x for key, x in leaves.items() if x is not None and x.requires_grad}
    gradients = torch.autograd.grad(value, list(trained.values()))  # pyright: ignore[reportArgumentType]
    return {"output": output, "last": last} | dict(zip(trained, gradients, strict=True))


def checked(name: str, steps: int, batch: int, hidden: int) -> dict:
    what = given(name, 3, hidden)
    usable, reason = served(what.update, hidden)
    if not usable:
        return {"skipped": reason}
    random = torch.Generator().manual_seed(steps + batch + hidden)
    input = torch.randn(steps, batch, 3, generator=random).cuda()
    state = (torch.randn(1, batch, hidden, generator=random) * 0.3).cuda()
    # Long sequences all have full length; the others differ in length, and some have no step.
    lengths = None if steps == STEPS else torch.randint(0, steps + 1, (batch,), generator=random)
    fixed, every = (what, input, state, lengths), steps == 100
    expected = results(*fixed, torch.float64, "portable", every)
    plain = results(*fixed, torch.float32, "portable", every)
    poison = torch.full((1 << 26,), torch.nan, device="cuda")
    del poison
    actual = results(*fixed, torch.float32, "cuda", every)
    repeated = results(*fixed, torch.float32, "cuda", every)
    errors = {key: cuda_device.distance(actual[key], expected[key]) for key in expected}
    allowed = {
        key: max(
            OUTPUTS if key in ("output", "last") else GRADIENTS, 3 * cuda_device.distance(plain[key], expected[key])
        )
        for key in expected
    }
    is_deterministic = all(torch.equal(actual[key], repeated[key]) for key in actual)
    return {
        "errors": errors,
        "repeats": is_deterministic,
        "good": is_deterministic and all(errors[key] <= allowed[key] for key in errors),
    }


def check() -> list[dict]:
    rows = []
    for name in LAYERS:
        for case in CHECKS:
            if name in TWINS and case[0] == STEPS:
                continue
            row = {"model": name, **dict(zip(("steps", "batch", "hidden"), case, strict=True))}
            try:
                row |= checked(name, *case)
            except Exception as error:
                row |= {"failed": f"{type(error).__name__}: {error}", "good": False}
                print("".join(traceback.format_exception(error)[-2:]), flush=True)
            if "skipped" in row:
                continue
            worst = max(row.get("errors", {"": float("nan")}).items(), key=lambda item: item[1])
            mark = "ok  " if row["good"] else "FAIL"
            print(f"{mark} {name:20} {case[0]:4} {case[1]:4} {case[2]:4}  worst {worst[0]} {worst[1]:.1e}", flush=True)
            rows.append(row)
    return rows


def kernels(what: Model) -> tuple[Callable, Callable]:
    """One forward and one backward pass of the kernels alone, with the gradients that a layer asks for."""
    rule = engine.UPDATES[what.update]
    drive = torch.randn(STEPS, BATCH, rule.drives * HIDDEN, device="cuda")
    of = Operands(drive, None, None, None, what.weight, what.parameters, None, None)
    gradient = torch.randn(STEPS, BATCH, HIDDEN, device="cuda")
    request = Request(rule, keep=True)
    output, last, trail = cuda.forward(of, request)
    assert trail is not None
    after = BackwardInputs(gradient, last, output, trail)
    needs = Needs(False, False, False, False, False, parameters="parameters" in what.trained, timespans=False)
    results = trail[-1], trail[0] if rule.states == 2 else None, output, last

    def forward():
        cuda.run_kernel("forward", of, results, (True,), request)

    def backward():
        return cuda.backward_steps(of, after, request, needs)

    return forward, backward


def whole(what: Model) -> Callable:
    """Forward and backward through the operator, with a gradient at every step and those of the layer's weights."""
    leaves = {key: x if x is None else x.clone() for key, x in zip(NAMES, what[1:5], strict=True)}
    for key in what.trained:
        leaves[key].requires_grad_()  # pyright: ignore[reportOptionalMemberAccess]
    update, input = engine.UPDATES[what.update], torch.randn(STEPS, BATCH, 1, device="cuda")
    gradient = torch.randn(STEPS, BATCH, HIDDEN, device="cuda")

    def call():
        output, _ = engine.run(input, None, **leaves, update=update, backend="cuda")  # pyright: ignore
        return torch.autograd.grad(output, [leaves[key] for key in what.trained], gradient)  # pyright: ignore

    return call


def make_optimiser_part(name: str) -> Callable:
    """Return the part of a step outside the engine: from parameters to the engine's arguments, and back."""
    layer = LAYERS[name](1, HIDDEN, device="cuda")

    def call():
        trained = [x for x in layer.cell().arguments() if x is not None and x.requires_grad]
        used = list(layer.parameters())
        return torch.autograd.grad(sum(x.sum() for x in trained), used, allow_unused=True)

    return call


def cornn() -> Model:
    """coRNN as its layer has it, with the constants of psMNIST."""
    layer = CoRNN(1, HIDDEN, dt=0.083, gamma=0.13, epsilon=4.1, device="cuda")
    V, W, W_z, b = (x.detach() for x in layer.matrices())
    constants = torch.tensor([[0.083], [0.13], [4.1]], device="cuda").expand(3, HIDDEN).contiguous()
    return Model("cornn/explicit/tanh", V, b, torch.cat((W, W_z), -1), constants, NAMES[:3])


def of_lem() -> tuple[Callable, Callable, Callable]:
    """LEM's kernels, one pass each, and both passes of its layer: these are separate kernels.

    The first one also computes the input map, a product with one feature.
    """
    layer = baselines.LEM(1, HIDDEN, device="cuda", backend="cuda")
    cell, dt = layer.cell(), torch.ones(1, device="cuda")
    weights = [x.detach() for x in (cell.weight_ih, cell.bias, cell.weight_hh, cell.weight_zy)]
    input, gradient = torch.randn(STEPS, BATCH, 1, device="cuda"), torch.randn(STEPS, BATCH, HIDDEN, device="cuda")
    of = lem.Operands(input, torch.zeros(2, BATCH, HIDDEN, device="cuda"), *weights)

    def forward():
        return lem.forward(of, dt, every=True, keep=True)

    *after, _ = forward()

    def backward():
        return lem.backward(of, (gradient, None), dt, *after)  # pyright: ignore[reportArgumentType]

    def both():
        return torch.autograd.grad(layer(input)[0], list(layer.parameters()), gradient)

    return forward, backward, both


def passes(name: str) -> tuple[Callable, Callable, Callable]:
    """The kernels of a forward and of a backward pass, and both passes with the gradients of the weights."""
    if name == "lem":
        return of_lem()
    what = cornn() if name == "cornn" else given(name, 1, HIDDEN)
    return *kernels(what), whole(what)


def measure(repeats: int) -> list[dict]:
    rows: list[dict] = []
    for name in ("cornn", *LAYERS, "lem"):
        row: dict = {"model": name, "steps": STEPS, "batch": BATCH, "hidden": HIDDEN, "inputs": 1}
        try:
            forward, backward, both = (cuda_device.capture(function) for function in passes(name))
            row["forward_us"] = cuda_device.median(forward, repeats) * 1e3 / STEPS
            row["backward_us"] = cuda_device.median(backward, repeats) * 1e3 / STEPS
            row["both_ms"] = cuda_device.median(both, repeats)
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"
            print("".join(traceback.format_exception(error)[-2:]), flush=True)
        rows.append(row | {"apart_ms": None})
    for row in rows:
        if row["model"] not in LAYERS:
            continue
        try:
            row["apart_ms"] = cuda_device.median(cuda_device.capture(make_optimiser_part(row["model"])), repeats)
        except Exception as error:
            print(f"what {row['model']} costs apart: {type(error).__name__}: {error}", flush=True)
    base = rows[0]
    print(f"\n{'':20}  forward backward us a step, ratio |   both ms, ratio | apart ms")
    for row in rows:
        if "failed" in row or "failed" in base:
            print(f"{row['model']:20}  {row.get('failed', 'nothing to compare with')}")
            continue
        row["kernels_ratio"] = (row["forward_us"] + row["backward_us"]) / (base["forward_us"] + base["backward_us"])
        row["both_ratio"] = row["both_ms"] / base["both_ms"]
        mark = "" if row["both_ratio"] <= GOAL else f"  above {GOAL}"
        print(
            f"{row['model']:20}  {row['forward_us']:7.3f} {row['backward_us']:7.3f} {row['kernels_ratio']:16.2f} "
            f"| {row['both_ms']:8.3f} {row['both_ratio']:6.2f} | {row['apart_ms'] or 0:.3f}{mark}",
            flush=True,
        )
    return rows


def kinds() -> Iterator[tuple]:
    """Yield the arguments of `cuda._prepare` for every kernel that will be needed."""
    for name in LAYERS:
        what = given(name, 1, HIDDEN)
        update = engine.UPDATES[what.update]
        for batch, hidden in dict.fromkeys((batch, hidden) for _, batch, hidden in CHECKS):
            if served(what.update, hidden)[0]:
                yield "forward", update, False, False, "exact", False, 0, 1, batch, hidden
                for parameters in {True, "parameters" in what.trained}:
                    yield (
                        "backward",
                        engine.UPDATES[what.update],
                        False,
                        parameters,
                        "exact",
                        False,
                        0,
                        1,
                        batch,
                        hidden,
                    )
    for direction in ("forward", "backward"):
        yield direction, engine.UPDATES["cornn/explicit/tanh"], False, False, "exact", False, 0, 1, BATCH, HIDDEN


def compile_all() -> None:
    """Compile all kernels in parallel: one after another they would take most of the time."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda kind: cuda._prepare(*kind), dict.fromkeys(kinds())))


def main() -> None:
    options = cuda_device.parse_options(__doc__)
    start = time.perf_counter()
    try:
        compile_all()
    except Exception as error:
        print(f"compiling ahead failed, each will be compiled when it is needed: {error}", flush=True)
    print(f"compiled in {time.perf_counter() - start:.0f} s", flush=True)
    content: dict = {
        "measured": f"{STEPS} steps, {BATCH} sequences, {HIDDEN} neurons, 1 input: device events, CUDA graphs, median",
        "machine": machine(),
        **source(),
    }

    def write() -> None:
        if options.json:
            options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")

    if options.only != "check":
        content["rows"] = measure(options.repeats)
        write()
    if options.only != "time":
        content["checks"] = check()
        write()
        bad = [row for row in content["checks"] if not row["good"]]
        print(f"{len(content['checks']) - len(bad)} of {len(content['checks'])} checks good")
        for row in bad:
            print("FAIL", row)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
