"""The gradient of R by products of pieces, run on a CPU by an emulation of a block of threads, against float64."""

import ctypes

import pytest
import torch
from emulator import load
from test_tensor_emulated import guarded, pytestmark, untouched  # noqa: F401

from cornn.engine.backends.cuda.nvrtc import KERNELS
from cornn.engine.backends.cuda.weights import ACROSS, DOWN, PIECES_DEPTH, PIECES_MACROS, split_rows

# As many pieces as fp32 has bits, summed in fp32.
EMULATED = 3e-7

ENTRY = """
extern "C" void run(int blocks, void** p, const long long* n) {
    run_blocks(blocks, THREADS, [&] {
        partial((const float*)p[0], (const float*)p[1], (const float*)p[2], (const float*)p[3], (float*)p[4], n[0],
                n[1], n[2], n[3], n[4]);
    });
}
extern "C" void add_up(int blocks, void** p, const long long* n) {
    run_blocks(blocks, THREADS, [&] { total((float4*)p[4], (float4*)p[5], (const float4*)p[6], n[5], n[6]); });
}
"""


def built(folder) -> ctypes.CDLL:
    text = (KERNELS / "weights_split.cu").read_text(encoding="utf8")
    text = text.replace("extern __shared__ __align__(128) unsigned char memory[];", "")
    pieces = (KERNELS / "split.cuh").read_text(encoding="utf8").replace('#include "tensor_core.cuh"', "")
    sources = {
        "weights.cpp": f'#include "emulated_grid.h"\n#include "weights_split.cu"\n{ENTRY}',
        "weights_split.cu": text,
    }
    return load(folder, {**sources, "split.cuh": pieces}, PIECES_MACROS, "-O1")


@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "states", "parts", "with_state"),
    [
        (7, 5, 132, 2, 2, True),
        (4, 9, 128, 2, 1, False),
        (3, 7, 260, 1, 3, True),
        (1, 3, 20, 2, 1, True),
    ],
)
def test_products_of_pieces_are_as_accurate_as_fp32(tmp_path, steps, batch, hidden, states, parts, with_state):
    torch.manual_seed(hidden)
    drive, output, trail = (guarded(torch.randn(steps, batch, hidden)) for _ in range(3))
    drive *= torch.logspace(-6, 3, hidden)  # neurons of very different sizes
    state = guarded(torch.randn(states, batch, hidden)) if with_state else None
    scale = guarded(torch.rand(hidden, states * hidden))
    each = -(-steps * batch // (parts * PIECES_DEPTH)) * PIECES_DEPTH
    sums = guarded(torch.full((-(-steps * batch // each), hidden, states * hidden), torch.nan))
    weight = guarded(torch.full((hidden, states * hidden), torch.nan))
    tensors = [drive, output, trail, state, sums, weight, scale]
    pointers = (ctypes.c_void_p * len(tensors))(*(None if x is None else x.data_ptr() for x in tensors))
    numbers = (ctypes.c_longlong * 7)(steps * batch, batch, hidden, states, each, len(sums), weight.numel())
    library = built(tmp_path)
    library.run(-(-hidden // DOWN) * -(-hidden // ACROSS) * states * len(sums), pointers, numbers)
    library.add_up(-(-weight.numel() // 1024), pointers, numbers)
    assert all(untouched(x) for x in tensors if x is not None)

    before = torch.zeros(states, batch, hidden) if state is None else state
    wanted = []
    for block, sequence in enumerate((output, trail)[:states]):
        earlier = torch.cat((before[block : block + 1], sequence[:-1])).flatten(0, 1).double()
        wanted.append(drive.flatten(0, 1).double().mT @ earlier)
    want = torch.cat(wanted, 1) * scale
    error = (weight - want).norm(dim=1) / want.norm(dim=1)  # of each neuron
    assert error.max() <= EMULATED


@pytest.mark.parametrize(("rows", "tiles", "values"), [(94080, 64, 1 << 21), (94080, 2, 1 << 15), (17, 4, 1 << 17)])
def test_the_parts_cover_all_rows_and_fill_the_device(rows, tiles, values):
    parts, each = split_rows(rows, tiles, values, 132)
    assert (parts - 1) * each < rows <= parts * each
    assert each % PIECES_DEPTH == 0
    assert rows < 1000 or tiles * parts >= 0.9 * 132 * -(-tiles * parts // 132)
