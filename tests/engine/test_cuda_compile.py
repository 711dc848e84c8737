"""Every kernel compiles without a GPU, and keeps to its registers and to the shared memory of every architecture.

Registers are counted on three architectures: sm_90 for every kernel; the oldest and the newest that have the kernel for
the variants that need most of them. No other architecture has code of its own in the sources.
"""

import struct
from typing import Any

import pytest
from own_updates import OWN

from cornn.engine import lem
from cornn.engine.backends.cuda import nvrtc, weights
from cornn.engine.backends.cuda.backend import _macros, _update_macros
from cornn.engine.backends.cuda.layout import (
    BLOCK_SIZES,
    CLUSTERS,
    INPUT_WEIGHTS,
    INPUT_WEIGHTS_WITH_SPANS,
    ROWS,
    ROWS_WITH_PARAMETERS,
    TENSOR_SIZES,
    GridPlan,
    Plan,
    grid_plan,
    prefers_cluster,
    tensor_plans,
)
from cornn.engine.updates import UPDATES

pytest.importorskip("cuda.core", reason="cuda-core is not installed")
pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-core is not installed")

BLOCKS = [Plan(size, rows, 1) for size in BLOCK_SIZES for rows in ROWS]
CLUSTERED = [Plan(size, 4, cluster, sets) for size, (cluster, sets) in CLUSTERS.items()]


def case(arch: str, *values, representative: bool) -> Any:
    """A parametrisation that is slow unless it stands for the others: a compilation takes seconds."""
    return pytest.param(arch, *values, marks=() if representative and arch == "sm_90" else pytest.mark.slow)


# Bytes of shared memory that a block may have, by architecture; without asking for more, it may have STATIC.
LIMITS = {
    "sm_75": 65_536,
    "sm_80": 166_912,
    "sm_86": 101_376,
    "sm_89": 101_376,
    "sm_90": 232_448,
    "sm_100": 232_448,
    "sm_120": 101_376,
}
STATIC = 49_152
# Every layout for one architecture, for the others those that need most registers: with several sequences per block.
# Timespans and, where a layout has them, gradients of the parameters need most too; one layout per size has neither.
CASES = [
    case(arch, layout, spans, representative=False)
    for arch, layouts in {"sm_75": BLOCKS, "sm_90": BLOCKS + CLUSTERED, "sm_100": CLUSTERED, "sm_120": BLOCKS}.items()
    for layout in layouts
    if arch == "sm_90" or layout.rows == 4
    for spans in ((0, 1) if arch == "sm_90" and (layout.rows == 1 or layout.cluster > 1) else (1,))
]
# The largest: every gradient, and the damping and activation that need most.
UPDATE = {"UPDATE": "Oscillator", "IMPLICIT": 1, "ACTIVATION": "TANH"}

# Of the cubin's section .nv.info, by NVIDIA's names EIATTR_REGCOUNT and EIATTR_FRAME_SIZE.
REGISTERS, FRAME = 0x2F, 0x11


def sections(cubin: bytes) -> list[tuple[str, int, int, int]]:
    """Name, kind, first byte and length of the sections of a cubin, an ELF file."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    text = rows[names][4]
    return [
        (cubin[text + name :].split(b"\0", 1)[0].decode(), kind, start, length)
        for name, kind, _, _, start, length in rows
    ]


def check_shared(cubin: bytes, limit: int, dynamic: int) -> None:
    """Check the shared memory that a kernel has by itself, and with what it asks for when it is launched."""
    static = sum(length for name, _, _, length in sections(cubin) if name.startswith(".nv.shared."))
    assert static <= STATIC
    assert static + dynamic <= limit, f"{static} + {dynamic} bytes of shared memory"


def resources(cubin: bytes) -> dict[int, int]:
    """The most registers and bytes of stack of a cubin's kernels, read from its ELF sections."""
    found = {}
    for _, kind, start, length in sections(cubin):
        if kind != 0x70000000:  # SHT_CUDA_INFO
            continue
        at = start
        while at < start + length:
            layout, attribute, value = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if layout == 4:  # what follows has `value` bytes; otherwise the value is all there is
                if attribute in (REGISTERS, FRAME):
                    found[attribute] = max(found.get(attribute, 0), struct.unpack_from("<II", cubin, at)[1])
                at += value
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("arch", "layout", "spans"), CASES, ids=lambda x: "x".join(map(str, x)) if isinstance(x, Plan) else str(x)
)
def test_it_compiles_without_spills(arch, layout, spans, direction):
    has_parameters = layout.cluster > 1 or layout.rows in ROWS_WITH_PARAMETERS
    for_parameters = bool(spans) and direction == "backward" and has_parameters
    macros = {**UPDATE, "SPANS": spans, "FOR_PARAMETERS": int(for_parameters)}
    cubin = nvrtc.compile_kernel(f"{layout.kind}_{direction}.cu", _macros(layout, macros), arch)
    used = resources(cubin)
    assert 0 < used[REGISTERS] <= 65536 // layout.threads
    assert used[FRAME] == 0, f"{layout} spills {used[FRAME]} bytes a thread"
    limit = LIMITS["sm_90"] if layout.cluster > 1 else min(LIMITS.values())
    check_shared(cubin, limit, layout.shared(direction, bool(spans), for_parameters))


@pytest.mark.parametrize("arch", LIMITS)
def test_what_is_asked_for_at_launch_fits(arch):
    """For every layout of every kernel, without compiling it."""
    asked = [
        layout.shared(direction, spans, for_parameters)
        for direction in ("forward", "backward")
        for spans in (False, True)
        for for_parameters in (False, True)
        for layout in (
            *(CLUSTERED if arch in ("sm_90", "sm_100") else ()),
            *(
                layout
                for size in TENSOR_SIZES
                for precision in ("tf32", "bf16")
                for layout in tensor_plans(size, precision, spans, for_parameters)
                if arch != "sm_75"
            ),
        )
    ]
    asked += [lem.shared_bytes(size) + lem.STATIC * size * 4 for size in lem.SIZES if (arch, size) != ("sm_75", 128)]
    assert max(asked) <= LIMITS[arch]


# Multiprocessors and bytes of shared memory per block of one device of each kind, the largest layer of a few that it
# holds, and an odd one.
DEVICES = {
    "sm_80": (108, 166_912, 1024),
    "sm_86": (84, 101_376, 640),
    "sm_89": (128, 101_376, 768),
    "sm_90": (132, 232_448, 1536),
    "sm_100": (148, 232_448, 1536),
    "sm_120": (170, 101_376, 1024),
}


def grid_that_fits(arch: str, hidden: int, batch: int, precision: str = "exact", **options) -> GridPlan:
    multiprocessors, shared, _ = DEVICES[arch]
    layout = grid_plan(hidden, batch, multiprocessors, shared, precision, **options)
    assert layout is not None
    assert layout.shared() <= shared
    assert 1 <= layout.bands * layout.teams <= multiprocessors
    assert layout.bands * layout.rows >= hidden
    return layout


@pytest.mark.parametrize("arch", DEVICES)
def test_grids_fit(arch):
    for hidden, precision in ((DEVICES[arch][-1], "exact"), (512, "tf32"), (700, "bf16")):
        grid_that_fits(arch, hidden, 64, precision)


@pytest.mark.parametrize(
    ("arch", "hidden", "split"),
    [
        *(
            case(arch, hidden, False, representative=False)
            for arch, hidden in (("sm_80", 1024), ("sm_90", 530), ("sm_90", 1536), ("sm_120", 1024))
        ),
        *(
            case(arch, hidden, True, representative=False)
            for arch, hidden in (("sm_80", 512), ("sm_90", 530), ("sm_90", 1024), ("sm_90", 1536), ("sm_100", 1024))
        ),
    ],
)
def test_a_grid_compiles_without_spills(arch, hidden, split):
    for direction, spans, for_parameters in (
        ("forward", 0, 0),
        ("forward", 1, 0),
        ("backward", 0, 0),
        ("backward", 1, 1),
    ):
        rich = bool(spans or for_parameters)
        layout = grid_that_fits(arch, hidden, 120, split=split, rich=rich)
        assert layout.precision == ("split" if split else "exact")
        macros = {**UPDATE, "SPANS": spans, "FOR_PARAMETERS": for_parameters}
        cubin = nvrtc.compile_kernel(f"grid_{direction}.cu", _macros(layout, macros), arch)
        check_shared(cubin, LIMITS[arch], layout.shared())
        used = resources(cubin)
        assert 0 < used[REGISTERS] <= 65536 // layout.threads
        # With Blackwell's compiler an address of the largest kernel waits on the stack.
        most = 8 if split and arch == "sm_100" else 0
        assert used[FRAME] <= most, f"{layout} spills {used[FRAME]} bytes a thread"


@pytest.mark.parametrize(
    ("arch", "hidden", "batch", "precision"),
    [
        case("sm_90", 1024, 120, "bf16", representative=False),
        case("sm_90", 256, 1024, "tf32", representative=False),
        case("sm_90", 1792, 32, "bf16", representative=False),
        case("sm_80", 512, 120, "tf32", representative=False),
        case("sm_120", 700, 64, "bf16", representative=False),
    ],
)
def test_a_grid_on_tensor_cores_compiles_without_spills(arch, hidden, batch, precision):
    layout = grid_that_fits(arch, hidden, batch, precision)
    for direction, spans, for_parameters in (("forward", 1, 0), ("backward", 0, 0), ("backward", 1, 1)):
        macros = {**UPDATE, "SPANS": spans, "FOR_PARAMETERS": for_parameters}
        used = resources(nvrtc.compile_kernel(f"grid_{direction}.cu", _macros(layout, macros), arch))
        assert used[FRAME] == 0, f"{layout} spills {used[FRAME]} bytes a thread"


@pytest.mark.parametrize("arch", [case(arch, representative=True) for arch in ("sm_80", "sm_90", "sm_120")])
def test_the_kernel_of_the_weight_gradients_compiles_without_spills(arch):
    assert resources(nvrtc.compile_kernel("weights.cu", weights.MACROS, arch))[FRAME] == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_kernel_of_pieces_for_the_weight_gradients_has_room(arch):
    cubin = nvrtc.compile_kernel("weights_split.cu", weights.PIECES_MACROS, arch)
    check_shared(cubin, LIMITS[arch], weights.PIECES_SHARED)
    # Its sums take half of the registers; a few addresses wait on the stack, outside of the products.
    assert resources(cubin)[FRAME] <= 32


def test_small_batches_of_medium_layers_stay_with_the_exact_kernel():
    for hidden, batch, wanted in ((256, 16, True), (256, 4096, False), (512, 120, False), (600, 1, False)):
        layout = grid_plan(hidden, batch, 132, 232_448, "bf16")
        assert layout is not None
        assert prefers_cluster(hidden, 1, batch, 132, layout) == wanted


def test_a_grid_serves_no_layer_that_does_not_fit():
    assert grid_plan(1792, 8, 132, 232_448) is None
    assert grid_plan(1024, 8, 84, 101_376) is None


# Every kernel on tensor cores for one architecture, with timespans those that need most registers; for the others the
# large ones.
TENSOR = [
    case(arch, size, precision, direction, spans, for_parameters, representative=precision == "bf16" and size == 32)
    for arch, sizes in {"sm_80": TENSOR_SIZES[-1:], "sm_90": TENSOR_SIZES, "sm_120": TENSOR_SIZES[-1:]}.items()
    for size in sizes
    for precision in ("tf32", "bf16")
    for direction, spans, for_parameters in (
        ("forward", False, False),
        ("backward", False, True),
        *([("backward", True, True)] if arch == "sm_90" else []),
    )
]


@pytest.mark.parametrize(("arch", "size", "precision", "direction", "spans", "for_parameters"), TENSOR)
def test_tensor_cores_compile_without_spills(arch, size, precision, direction, spans, for_parameters):
    for layout in tensor_plans(size, precision, spans, for_parameters):
        # Odd sizes have no timespans here and even ones have, to try both.
        macros = {**UPDATE, "SPANS": int(spans), "FOR_PARAMETERS": int(for_parameters), "WIDE": int(spans)}
        cubin = nvrtc.compile_kernel(f"tensor_{direction}.cu", _macros(layout, macros), arch)
        limit = min(limit for arch, limit in LIMITS.items() if arch != "sm_75")
        check_shared(cubin, limit, layout.shared(direction, spans, for_parameters))
        used = resources(cubin)
        assert 0 < used[REGISTERS] <= 65536 // (layout.threads * layout.resident)
        assert used[FRAME] == 0, f"{layout} spills {used[FRAME]} bytes a thread"


# Generated updates: the sizes and numbers of sequences that need most registers, and a small one.
GENERATED = [
    case(arch, update, size, rows, representative=size == 64 and update == "lipschitz")
    for arch, size, rows in (
        ("sm_75", 128, 4),
        ("sm_90", 128, 2),
        ("sm_90", 64, 1),
        ("sm_120", 128, 4),
    )
    for update in ("leaky", "fastgrnn", "modrelu", "lipschitz", "smooth", "undamped", *(["gated"] if rows > 1 else []))
    if arch == "sm_90" or update in ("fastgrnn", "gated", "lipschitz")
]


@pytest.mark.parametrize(("arch", "update", "size", "rows"), GENERATED)
def test_generated_updates_compile_without_spills(arch, update, size, rows):
    layout = Plan(size, rows, 1)
    kinds = [("forward", 0), ("backward", 0)] + [("backward", 1)] * (rows in ROWS_WITH_PARAMETERS)
    for direction, for_parameters in kinds:
        macros = {**_update_macros((UPDATES | OWN)[update], False), "FOR_PARAMETERS": for_parameters}
        used = resources(nvrtc.compile_kernel(f"block_{direction}.cu", _macros(layout, macros), arch))
        assert 0 < used[REGISTERS] <= 65536 // layout.threads
        # The sine of large numbers needs a stack.
        assert used[FRAME] == 0 or update == "smooth", f"{layout} spills {used[FRAME]} bytes a thread"


@pytest.mark.parametrize(
    ("arch", "size", "rows", "features"),
    [
        case("sm_75", 128, 4, 0, representative=False),
        case("sm_90", 128, 4, 0, representative=False),
        case("sm_90", 96, 4, INPUT_WEIGHTS_WITH_SPANS, representative=False),
        case("sm_90", 64, 1, 1, representative=True),
        case("sm_120", 128, 4, 0, representative=False),
    ],
)
def test_durations_compile_without_spills(arch, size, rows, features):
    layout, update = Plan(size, rows, 1), _update_macros(UPDATES["cornn/spans/tanh"], True)
    makes = {"FEATURES": features, "SCALED": 1} if features else {}
    kinds = [("forward", makes), ("backward", {"FOR_PARAMETERS": 0}), ("backward", {"FOR_PARAMETERS": 1})]
    for direction, more in kinds:
        used = resources(nvrtc.compile_kernel(f"block_{direction}.cu", _macros(layout, update | more), arch))
        assert 0 < used[REGISTERS] <= 65536 // layout.threads
        assert used[FRAME] == 0, f"{layout} spills {used[FRAME]} bytes a thread"


# Kernels that make the drive: the sizes and numbers of sequences that need most registers, and the ones that most use.
MAKES_DRIVE = [
    case(*values, representative=values[2] == 64)
    for values in (
        ("sm_75", "cornn/implicit/tanh", 128, 4, False, INPUT_WEIGHTS[128]),
        ("sm_75", "lipschitz", 128, 4, False, INPUT_WEIGHTS[128] // 2),
        ("sm_90", "cornn/implicit/tanh", 128, 1, False, 1),
        ("sm_90", "cornn/implicit/tanh", 128, 4, False, 1),
        ("sm_90", "cornn/implicit/tanh", 128, 4, True, INPUT_WEIGHTS_WITH_SPANS),
        ("sm_90", "cornn/implicit/tanh", 64, 1, False, INPUT_WEIGHTS[64]),
        ("sm_90", "cornn/implicit/tanh", 64, 2, False, INPUT_WEIGHTS[64]),
        ("sm_90", "cornn/implicit/tanh", 32, 4, False, INPUT_WEIGHTS[32]),
        ("sm_90", "lipschitz", 64, 4, False, INPUT_WEIGHTS[64] // 2),
        ("sm_90", "lipschitz", 128, 4, False, INPUT_WEIGHTS[128] // 2),
        ("sm_120", "cornn/implicit/tanh", 128, 4, False, INPUT_WEIGHTS[128]),
    )
]


@pytest.mark.parametrize(("arch", "update", "size", "rows", "spans", "features"), MAKES_DRIVE)
def test_a_kernel_that_makes_the_drive_compiles_without_spills(arch, update, size, rows, spans, features):
    layout = Plan(size, rows, 1)
    macros = _macros(layout, {**_update_macros(UPDATES[update], spans), "FEATURES": features})
    used = resources(nvrtc.compile_kernel("block_forward.cu", macros, arch))
    assert 0 < used[REGISTERS] <= 65536 // layout.threads
    # On the oldest architecture two registers have no room in the tightest case, and wait on the stack.
    most = 8 if (arch, update) == ("sm_75", "lipschitz") else 0
    assert used[FRAME] <= most, f"{layout} spills {used[FRAME]} bytes a thread"


@pytest.mark.parametrize(
    ("size", "rows", "features", "for_parameters"),
    [
        (64, 2, INPUT_WEIGHTS[64], 1),
        pytest.param(128, 1, 0, 1, marks=pytest.mark.slow),
        pytest.param(128, 4, 4, 0, marks=pytest.mark.slow),
    ],
)
def test_kernels_that_multiply_scales_compile_without_spills(size, rows, features, for_parameters):
    layout = Plan(size, rows, 1)
    for direction in ("forward", "backward"):
        macros = {**UPDATE, "SPANS": 0, "SCALED": 1, "FOR_PARAMETERS": for_parameters}
        if features and direction == "forward":
            macros["FEATURES"] = features
        used = resources(nvrtc.compile_kernel(f"block_{direction}.cu", _macros(layout, macros), "sm_90"))
        assert 0 < used[REGISTERS] <= 65536 // layout.threads
        assert used[FRAME] == 0, f"{layout} spills {used[FRAME]} bytes a thread"


SMALLEST = ("block_forward.cu", _macros(BLOCKS[0], {**UPDATE, "SPANS": 0}), "sm_80")


def test_a_compiled_kernel_is_kept(cache, monkeypatch):
    first = nvrtc.compile_kernel(*SMALLEST)
    monkeypatch.setattr("cuda.core.Program", None)
    assert nvrtc.compile_kernel(*SMALLEST) == first
    assert len(list(cache.iterdir())) == 1
