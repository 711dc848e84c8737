"""The kernel of the optimiser's step, run on a CPU by an emulation of blocks of threads, against PyTorch."""

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch
from test_tensor_emulated import COMPILER, guarded, pytestmark, untouched  # noqa: F401

from cornn.engine import adam
from cornn.engine.backends.cuda import nvrtc

# A few roundings of numbers of order 1 in float32, where one is 6e-8.
ULPS = {"rtol": 5e-7, "atol": 5e-7}

TYPES = ["float*"] * 4 + ["const float*"] * 4 + ["long long*", "unsigned*", "float*", "const float*"]
TYPES += ["long long*"] * 3
TYPES += ["const float*"] * adam.PIECES + ["long long"] * (adam.PIECES + 2)
SOURCE = """
#include "emulated_block.h"
Index gridDim;
unsigned atomicAdd(unsigned* at, unsigned more) {{ const unsigned before = *at; *at += more; return before; }}
#include "adam.cu"
extern "C" void run(int blocks, int threads, const long long* given) {{
    gridDim.x = blocks;
    run_blocks(blocks, threads, [&] {{ adam({arguments}); }});
}}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adam")
    entry, library = folder / "adam.cpp", folder / "adam.so"
    arguments = ", ".join(f"({kind})given[{i}]" for i, kind in enumerate(TYPES))
    entry.write_text(SOURCE.format(arguments=arguments), encoding="utf8")
    options = [f"-D{name}={value}" for name, value in adam.macros().items()]
    options += [f"-I{Path(__file__).parent}", f"-I{nvrtc.KERNELS}"]
    command = [COMPILER, "-std=c++17", "-O0", "-w", "-shared", "-fPIC", *options, str(entry), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_it_compiles_without_spills(arch, tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-core is not installed")
    from test_cuda_compile import FRAME, resources

    monkeypatch.setenv("CORNN_CACHE", str(tmp_path))
    assert resources(nvrtc.compiled("adam.cu", adam.macros(), arch))[FRAME] == 0


def take(library, books, gradients, scale, loss):
    """The step, by the emulation."""
    arguments = adam.arguments(books, gradients, scale, loss)
    values = [x.data_ptr() if isinstance(x, torch.Tensor) else int(x or 0) for x in arguments]
    assert len(values) == len(TYPES)
    library.run(adam.blocks(books.weights), adam.THREADS, (ctypes.c_longlong * len(values))(*values))


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("sizes", [[700], [1, 300, 40], [7] * adam.PIECES, [7] * (adam.PIECES + 1)], ids=str)
@pytest.mark.parametrize("everything", [False, True], ids=["plain", "everything"])
def test_the_kernel_does_what_pytorch_does(library, models, sizes, everything):
    random, numbers, steps = torch.Generator().manual_seed(len(sizes)), sum(sizes), 3

    def draw(*shape):
        return torch.randn(*shape, generator=random)

    beta1, beta2, ema = (0.9, 0.999, 0.9) if everything else (0.0, 0.99, 0.0)
    # As in training, a step is small beside the weights.
    table = (torch.rand(steps, models, 3, generator=random) + 0.1) * torch.tensor([0.01 * everything, 0.01, 1.0])
    books = adam.Books(
        weights=guarded(draw(models, numbers)),
        first=guarded(torch.zeros(models, numbers)),
        second=guarded(torch.zeros(models, numbers)),
        average=guarded(draw(models, numbers)) if everything else None,
        losses=guarded(torch.zeros(models)),
        done=torch.zeros(1, dtype=torch.int64),
        rows=torch.arange(models) * 10,
        begins=torch.arange(models) * 10,
        epochs=torch.arange(models) + 2,
        table=guarded(table),
        rate=guarded(torch.rand(numbers, generator=random)) if everything else None,
        gains=torch.tensor([1 - beta1, beta2, 1 - beta2, 1 - ema]),
        arrived=torch.zeros(1, dtype=torch.int32),
    )
    weights, first, second = (x.clone() for x in books[:3])
    average, total = books.average.clone() if everything else None, torch.zeros(models)
    for step in range(steps):
        pieces, loss = [guarded(draw(models, size)) for size in sizes], draw(models)
        scale = torch.rand(models, 1, generator=random) if everything else None
        take(library, books, pieces, scale, loss)
        gradient = torch.cat(pieces, 1) * (1 if scale is None else scale)
        decay, size, root = table[step].unsqueeze(-1).unbind(1)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        change = first / (second.sqrt() / root + adam.EPSILON) * size + weights * decay
        weights -= change * (1 if books.rate is None else books.rate)
        if average is not None:
            average.lerp_(weights, 1 - ema)
        total += loss
        assert (books.done.item(), books.arrived.item()) == (step + 1, 0)
        assert books.rows.tolist() == [10 * model + (step + 1) % (model + 2) for model in range(models)]
    for got, want in zip(books[:5], (weights, first, second, average, total), strict=True):
        if want is not None:
            torch.testing.assert_close(got, want, **ULPS)
            assert untouched(got)
