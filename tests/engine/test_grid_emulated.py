"""The grid kernels on tensor cores, run on a CPU by an emulation of one block of threads, against the portable backend.

One block has all neurons here, so that it waits for nobody: what it can find is wrong fragments, wrong neurons or
sequences, and writes past an end, not how blocks exchange their values.
"""

import ctypes

import pytest
import torch
from emulation import assert_as_portable, built
from test_block_emulated import INSTRUCTIONS
from test_tensor_emulated import CALLS, arguments, pytestmark, untouched  # noqa: F401

from cornn.engine.backends.cuda.backend import _macros, _update_macros
from cornn.engine.backends.cuda.layout import GridPlan
from cornn.engine.updates import UPDATES

GRID_INSTRUCTIONS = {
    **INSTRUCTIONS,
    r"extern __shared__ .*memory\[\];": "",
    r'const unsigned to =[^;]*;\s*asm volatile\("cp.async.cg[^;]*;[^;]*;': 'fail("a copy");',
    r'asm volatile\("red.release[^;]*;[^;]*;': "++*counter;",
    r'do asm volatile\("ld.acquire[^;]*;[^;]*;\s*while': "count = *counter; if",
    r"\(count - seen\) < 0\);": '(count - seen) < 0) fail("a value has not come");',
    r'asm volatile\("ld.global.cg[^;]*;[^;]*;': "v = *from;",
    r'#include "tensor_core.cuh"': "",
}
ENTRY = """
extern "C" void run(void** pointers, const long long* numbers) {{
    run_blocks(1, THREADS, [&] {{ {call}; }});
}}
"""
# Further arguments of a grid: W y_0 (forward only), the values, the counters, the group and the first sequence.
EXTRA = {
    "forward": ", (const float*)pointers[9], (float*)pointers[10], (unsigned*)pointers[11], numbers[5], numbers[6])",
    "backward": ", (float*)pointers[14], (unsigned*)pointers[15], numbers[4], numbers[5])",
}

# update, steps, groups, batch, hidden, rows, sequences, spans, ragged, gradients of the parameters
CASES = [
    ("cornn/explicit/tanh", 5, 1, 40, 24, 24, 40, False, False, False),
    ("cornn/implicit/tanh", 4, 2, 13, 21, 24, 16, True, True, True),
    ("cornn/implicit/tanh", 4, 1, 9, 8, 8, 16, False, True, True),
    pytest.param("cornn/explicit/duffing", 3, 1, 24, 32, 32, 24, False, True, False, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    ("update", "steps", "groups", "batch", "hidden", "rows", "sequences", "spans", "ragged", "for_parameters"), CASES
)
def test_products_of_pieces_do_what_the_portable_loop_does(
    tmp_path, update, steps, groups, batch, hidden, rows, sequences, spans, ragged, for_parameters
):
    layout = GridPlan(128, rows, sequences, 1, 1, "split")
    macros = _macros(layout, _update_macros(UPDATES[update], spans))
    macros |= {"FOR_PARAMETERS": int(for_parameters)}
    given, gradients = arguments(steps, groups, batch, hidden, spans, ragged)
    state = given.state
    assert state is not None

    def run(direction, tensors, numbers):
        entry = ENTRY.format(call=CALLS[direction].removesuffix(")") + EXTRA[direction])
        headers = ["grid.cuh", "grid_split.cuh", "split.cuh"]
        library = built(tmp_path, f"grid_{direction}", macros, entry, GRID_INSTRUCTIONS, headers=headers)
        for group in range(groups):
            for begin in range(0, batch, sequences):
                values, counters = torch.zeros(layout.values), torch.zeros(32, dtype=torch.int32)
                more = [state[0] @ given.weight[..., :hidden].mT] if direction == "forward" else []
                every = [*tensors, *more, values, counters]
                pointers = (ctypes.c_void_p * len(every))(*(None if x is None else x.data_ptr() for x in every))
                library.run(pointers, (ctypes.c_longlong * 7)(*numbers, group, begin))
        assert all(untouched(x) for x in tensors if x is not None and x.is_floating_point())

    assert_as_portable(update, given, gradients, run, for_parameters)
