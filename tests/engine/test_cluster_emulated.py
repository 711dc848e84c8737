"""The cluster kernels, run on a CPU by an emulation of a cluster of blocks, against the portable backend.

What it can find besides what test_block_emulated.py can: messages that go astray, barriers that wait for the wrong
phase, buffers that are overwritten while somebody still reads them.
"""

import ctypes

import pytest
import torch
from emulation import assert_as_portable, built
from test_block_emulated import INSTRUCTIONS
from test_tensor_emulated import CALLS, arguments, guarded, pytestmark, untouched  # noqa: F401

from cornn.engine.backends.cuda.backend import _macros, _update_macros
from cornn.engine.backends.cuda.layout import plan
from cornn.engine.updates import UPDATES

ENTRY = """
extern "C" void run(int clusters, void** pointers, const long long* numbers) {{
    run_blocks(clusters, ALL_THREADS, [&] {{ {call}; }});
}}
"""

# What stands where an instruction of a GPU stands, as there; functions whose body is one have it written anew.
CLUSTER_INSTRUCTIONS = {
    **INSTRUCTIONS,
    r"extern __shared__ .*memory\[\];": "",
    r'asm\("mov.u32 %0, %%cluster_ctarank[^;]*;[^;]*;': "rank = this_rank();",
    r'asm\("mapa[^;]*;[^;]*;': "remote = address + ((rank + 1) << 24);",
    r'asm volatile\("barrier.cluster[^"]*"[^;]*;': "emulated_cluster_barrier();",
    r'asm volatile\("mbarrier.init[^;]*;[^;]*;': "emulated_init(barrier);",
    r'asm volatile\("fence.mbarrier_init[^;]*;[^;]*;': ";",
    r'asm volatile\("mbarrier.arrive[^;]*;[^;]*;': "emulated_expect(barrier, bytes);",
    r'asm volatile\(\s*"\{(.|\n)*?try_wait(.|\n)*?"memory"\);': "emulated_wait(barrier, parity);",
    r'asm volatile\(\s*"st.async[^;]*;[^;]*;': "emulated_send(address, v, barrier);",
    r'asm volatile\("ld.shared[^;]*;[^;]*;': "std::memcpy(&v, at_address(from), 16);",
    r'asm\("" :[^;]*;': ";",
}


def call(library, layout, groups, batch, tensors, numbers) -> None:
    pointers = (ctypes.c_void_p * len(tensors))(*(None if x is None else x.data_ptr() for x in tensors))
    values = (ctypes.c_longlong * len(numbers))(*numbers)
    library.run(layout.blocks(groups, batch) // layout.cluster, pointers, values)
    assert all(untouched(x) for x in tensors if x is not None and x.is_floating_point())


# update, steps, groups, batch, hidden, spans, ragged, gradients of the parameters
CASES = [
    ("cornn/explicit/tanh", 18, 1, 4, 256, False, False, False),
    ("cornn/implicit/tanh", 7, 2, 5, 201, False, True, False),
    ("cornn/implicit/tanh", 5, 1, 3, 129, True, True, True),
    ("cornn/explicit/duffing", 6, 1, 4, 190, False, True, True),
    pytest.param("cornn/explicit/tanh", 6, 1, 7, 512, False, True, False, marks=pytest.mark.slow),
    pytest.param("cornn/explicit/tanh", 3, 1, 3, 383, True, False, True, marks=pytest.mark.slow),
    pytest.param("cornn/implicit/tanh", 1, 1, 1, 300, False, False, True, marks=pytest.mark.slow),
]


STATE = 4  # place of the initial state among the arguments of the forward kernel, after that of the last state


def check(tmp_path, update, steps, groups, batch, hidden, spans, ragged, for_parameters, with_state=True):
    layout = plan(hidden, groups, batch, 132)
    macros = _macros(layout, _update_macros(UPDATES[update], spans)) | {"COUNT_OF_THREADS": layout.threads}
    given, gradients = arguments(steps, groups, batch, hidden, spans, ragged)
    given = given if with_state else given._replace(state=None)
    own = {"forward": macros, "backward": macros | {"FOR_PARAMETERS": int(for_parameters)}}

    def run(direction, tensors, numbers):
        entry = ENTRY.format(call=CALLS[direction])
        options = {"headers": ["cluster.cuh"], "optimisation": "-O1"}
        library = built(tmp_path, f"cluster_{direction}", own[direction], entry, CLUSTER_INSTRUCTIONS, **options)
        if direction == "forward" and not with_state:
            tensors = [*tensors]
            tensors[STATE] = guarded(torch.zeros_like(tensors[STATE - 1]))  # the backend makes one, like the last state
        call(library, layout, groups, batch, tensors, numbers)

    assert_as_portable(update, given, gradients, run, for_parameters)


@pytest.mark.parametrize(("update", "steps", "groups", "batch", "hidden", "spans", "ragged", "for_parameters"), CASES)
def test_the_kernels_do_what_the_portable_loop_does(
    tmp_path, update, steps, groups, batch, hidden, spans, ragged, for_parameters
):
    check(tmp_path, update, steps, groups, batch, hidden, spans, ragged, for_parameters)


@pytest.mark.parametrize("for_parameters", [False, True])
def test_without_a_state_they_start_from_zeros(tmp_path, for_parameters):
    check(tmp_path, "cornn/explicit/tanh", 5, 1, 3, 140, False, True, for_parameters, with_state=False)
