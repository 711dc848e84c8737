"""The layout of a recurrence on a GPU: how many neurons and sequences a block has, and how many blocks there are."""

from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "BLOCK_SIZES",
    "CLUSTERS",
    "GRID_ROWS",
    "INPUT_WEIGHTS",
    "INPUT_WEIGHTS_WITH_SPANS",
    "LARGEST_CLUSTER",
    "ROWS",
    "ROWS_WITH_PARAMETERS",
    "TENSOR_SIZES",
    "GridPlan",
    "Plan",
    "TensorPlan",
    "grid_plan",
    "plan",
    "prefers_cluster",
    "tensor_plan",
    "tensor_plans",
]

LARGEST_CLUSTER = 512
"""Maximum number of neurons whose weights fit into one cluster of blocks."""
BLOCK_SIZES = (32, 64, 96, 128)
INPUT_WEIGHTS = {32: 16, 64: 16, 96: 4, 128: 4}
"""Padded size -> values of V that fit into the registers of a lane. Up to this number, a block computes the drive."""
INPUT_WEIGHTS_WITH_SPANS = 4
"""The same with timespans, which need registers too."""
CLUSTERS = {192: (4, 1), 256: (4, 1), 384: (8, 2), 512: (8, 2)}
"""Padded size -> (blocks per cluster, sets of 4 sequences per cluster)."""

# Largest padded size -> (lanes that share a row, rows that a thread holds): LANES and TILE of tile.cuh.
_SPREADS = {32: (2, 1), 64: (4, 2), 128: (8, 4), 256: (16, 4), 512: (32, 8)}

# A step of a block takes about `latency + rows * issue` cycles, and `resident` blocks share a multiprocessor. These
# estimates decide how many sequences a block computes when there are more sequences than multiprocessors.
_COSTS = {32: (150, 45, 6), 64: (180, 90, 3), 96: (100, 230, 1), 128: (100, 300, 1)}

# Sequences that a block may compute; with gradients of the parameters there are no registers for four.
ROWS = (1, 2, 4)
ROWS_WITH_PARAMETERS = (1, 2)


class Plan(NamedTuple):
    """The layout of a problem on blocks or clusters."""

    size: int  # neurons after padding
    rows: int  # sequences that a block or cluster computes together
    cluster: int = 1  # blocks in a cluster
    sets: int = 1  # sets of `rows` sequences per cluster, which take turns

    @property
    def kind(self) -> str:
        return "cluster" if self.cluster > 1 else "block"

    @property
    def spread(self) -> tuple[int, int]:
        """Lanes that share a row, and rows per thread."""
        return next(spread for most, spread in _SPREADS.items() if self.size <= most)

    @property
    def threads(self) -> int:
        lanes, tile = self.spread
        return self.size // self.cluster // tile * lanes

    def shared(self, direction: str, spans: bool, for_parameters: bool) -> int:
        """Return the bytes of dynamic shared memory, which only clusters have: `Memory` of their kernels."""
        if self.cluster == 1:
            return 0
        lanes, tile = self.spread
        buffer = 4 * self.size * self.rows
        weights = 4 * self.size // lanes * tile * self.threads if self.size > 256 else 0
        if direction == "forward":
            buffers, fields = 5 - spans, 1 + spans
        else:
            buffers, fields = 3, (4 if for_parameters else 2) + spans
        return weights + 64 + self.sets * (buffers * buffer + 16 * fields * self.threads)

    def blocks(self, groups: int, batch: int) -> int:
        return groups * -(-batch // (self.rows * self.sets)) * self.cluster

    @property
    def macros(self) -> dict[str, object]:
        return {"SIZE": self.size, "ROWS": self.rows, "CLUSTER": self.cluster, "SETS": self.sets}


def plan(hidden: int, groups: int, batch: int, multiprocessors: int, choices: tuple[int, ...] = ROWS) -> Plan:
    if hidden > BLOCK_SIZES[-1]:
        size = next(size for size in CLUSTERS if hidden <= size)
        cluster, sets = CLUSTERS[size]
        return Plan(size, 4, cluster, sets)
    size = next(size for size in BLOCK_SIZES if hidden <= size)
    latency, issue, most = _COSTS[size]

    def cost(rows: int) -> int:
        blocks = groups * -(-batch // rows)
        resident = max(1, most // 2) if rows > 2 else most
        together = min(resident, -(-blocks // multiprocessors))
        return -(-blocks // (multiprocessors * resident)) * (latency + together * rows * issue)

    return Plan(size, min(choices, key=cost))


GRID_ROWS = (24, 16, 8)
"""Numbers of neurons that a block of a grid can have in exact fp32."""
_GRID_SEQUENCES = (8, 16, 24, 32, 40)
# Estimated cycles of a step of a grid without its products: exchange of values and sums.
_GRID_LATENCY = 4500
_GRID_THREADS = 256

# With tensor cores: registers of a thread for weights, sums and its pairs, and the largest numbers of neurons and
# sequences.
_TENSOR_GRID_REGISTERS = 194
_TENSOR_GRID_ROWS = 64
_TENSOR_GRID_SEQUENCES = 56
# With products of pieces: the largest number of neurons, and of neurons times sequences without and with timespans or
# gradients of the parameters.
_SPLIT_GRID_ROWS = 40
_SPLIT_GRID_PAIRS = (960, 768)

# Padded size -> estimated cycles of a step of a cluster kernel in exact fp32, forward.
_CLUSTER_COSTS = {192: 1700, 256: 2000, 384: 6000, 512: 8200}


class GridPlan(NamedTuple):
    """The layout of a problem on a grid of blocks that run at the same time."""

    size: int  # neurons after padding
    rows: int  # neurons of a block
    sequences: int  # sequences of a block
    bands: int  # blocks that share the neurons of the same sequences
    teams: int  # groups of `bands` blocks that run at the same time
    precision: str = "exact"  # "split": the accuracy of "exact", on tensor cores

    kind = "grid"
    threads = _GRID_THREADS

    @property
    def values(self) -> int:
        """32-bit words of device memory for the values of a team."""
        return 2 * self.size * self.sequences // (2 if self.precision == "bf16" else 1)

    def shared(self) -> int:
        """Return the bytes of dynamic shared memory: `Memory` of the kernels."""
        if self.precision == "exact":
            return 8 * self.rows * self.size + max(768 * self.sequences, 32 * self.rows * self.sequences)
        if self.precision == "split":
            return 8 * self.rows * self.size + 32 * self.sequences * (self.rows + 2)
        return 2 * self.values + 64 * self.sequences * (self.rows + 4)

    def fits_registers(self, rich: bool) -> bool:
        """Return whether a thread has enough registers for its weights, sums and pairs.

        rich: whether there are timespans or gradients of the parameters, which need registers too.
        """
        if self.precision == "exact":
            return True
        if self.precision == "split":
            return self.rows <= _SPLIT_GRID_ROWS and self.rows * self.sequences <= _SPLIT_GRID_PAIRS[rich]
        weights = self.rows * self.size // (128 * (2 if self.precision == "bf16" else 1))
        pairs = -(-self.rows * self.sequences // self.threads)
        return 6 * weights // 5 + self.rows // 2 + 16 * pairs <= _TENSOR_GRID_REGISTERS

    @property
    def cost(self) -> int:
        """Estimated cycles of a step."""
        if self.precision == "exact":
            return self.rows * self.size * self.sequences // 64 + _GRID_LATENCY
        if self.precision == "split":
            return self.rows * self.size * self.sequences // 98 + _GRID_LATENCY
        products = self.rows * self.size * self.sequences // (585 if self.precision == "bf16" else 292)
        return _GRID_LATENCY + products + self.values // 24 + self.rows * self.sequences

    @property
    def macros(self) -> dict[str, object]:
        kinds = {"TENSOR": ("tf32", "bf16"), "SPLIT": ("split",), "BF16": ("bf16", "split")}
        sizes = {"SIZE": self.size, "ROWS": self.rows, "SEQUENCES": self.sequences}
        return {**sizes, **{macro: int(self.precision in names) for macro, names in kinds.items()}}


def _grid_plans(hidden: int, multiprocessors: int, precision: str, rich: bool) -> Iterator[GridPlan]:
    """Yield the layouts for which a kernel exists."""
    if precision == "exact":
        size, choices, sequences = -(-hidden // 64) * 64, GRID_ROWS, _GRID_SEQUENCES
    else:
        part = 16 * (2 if precision == "bf16" else 1) * (_GRID_THREADS // 32)
        size = -(-hidden // part) * part
        choices, sequences = range(8, _TENSOR_GRID_ROWS + 1, 8), range(8, _TENSOR_GRID_SEQUENCES + 1, 8)
    for rows in choices:
        bands = -(-hidden // rows)
        for count in sequences:
            layout = GridPlan(size, rows, count, bands, multiprocessors // bands, precision)
            if layout.teams and layout.fits_registers(rich):
                yield layout


def grid_plan(
    hidden: int,
    batch: int,
    multiprocessors: int,
    shared: int,
    precision: str = "exact",
    *,
    split: bool = False,
    rich: bool = False,
) -> GridPlan | None:
    """Return the layout with the least estimated time, or None if the weights fit on no grid of this device.

    shared: maximum bytes of shared memory per block. split: whether products in exact fp32 may run on tensor cores, as
    sums of products of pieces. rich: whether there are timespans or gradients of the parameters.
    """
    plans = [
        (-(-batch // (layout.sequences * layout.teams)) * layout.cost, layout)
        for kind in (precision, *(["split"] if split and precision == "exact" else []))
        for layout in _grid_plans(hidden, multiprocessors, kind, rich)
        if layout.shared() <= shared
    ]
    return min(plans)[1] if plans else None


def prefers_cluster(hidden: int, groups: int, batch: int, multiprocessors: int, grid: GridPlan) -> bool:
    """Return whether a cluster kernel in exact fp32 is estimated to be faster than a grid."""
    if hidden > LARGEST_CLUSTER:
        return False
    exact = plan(hidden, groups, batch, multiprocessors)
    waves = -(-exact.blocks(groups, batch) // (multiprocessors // exact.cluster * exact.cluster))
    return waves * _CLUSTER_COSTS[exact.size] <= groups * -(-batch // (grid.sequences * grid.teams)) * grid.cost


TENSOR_SIZES = (64, 128)
"""Padded sizes of the tensor core kernels in which one block has all weights. Larger layers use a grid."""

# (padded size, precision) -> estimated cycles of a step's multiply-adds for 8 sequences; then the other cycles.
_TENSOR_COSTS = {(64, "tf32"): 128, (64, "bf16"): 64, (128, "tf32"): 512, (128, "bf16"): 256}
_TENSOR_LATENCY = 250


class TensorPlan(NamedTuple):
    """The layout of a problem for the kernels whose products run on tensor cores."""

    size: int  # neurons after padding
    rows: int  # sequences that a block computes together, 8 per tile
    precision: str  # "tf32" or "bf16"
    resident: int  # blocks that fit into the registers of a multiprocessor

    kind = "tensor"

    @property
    def threads(self) -> int:
        return 2 * self.size

    def shared(self, direction: str, spans: bool, for_parameters: bool) -> int:
        """Return the bytes of dynamic shared memory: `Memory` of the kernels."""
        words = self.size if self.precision == "tf32" else self.size // 2
        vectors = 4 * self.rows * (words + 8)
        if direction == "forward":
            buffers, fields = 4, 1 + spans
        else:
            buffers, fields = 2, (4 if for_parameters else 2) + spans
        return buffers * vectors + 4 * fields * self.rows // 4 * self.threads * 8

    def blocks(self, groups: int, batch: int) -> int:
        return groups * -(-batch // self.rows)

    @property
    def macros(self) -> dict[str, object]:
        return {
            "SIZE": self.size,
            "ROWS": self.rows,
            "BF16": int(self.precision == "bf16"),
            "RESIDENT": self.resident,
        }


def tensor_plans(size: int, precision: str, spans: bool, for_parameters: bool) -> list[TensorPlan]:
    """Return the layouts for which a kernel exists: two tiles where registers and shared memory suffice."""
    lean = size == TENSOR_SIZES[0]
    plans = [TensorPlan(size, 8, precision, (2 if for_parameters else 3) if lean else 1)]
    if not spans and not for_parameters and (lean or precision == "bf16"):
        plans.append(TensorPlan(size, 16, precision, 2 if lean else 1))
    return plans


def tensor_plan(
    hidden: int,
    groups: int,
    batch: int,
    multiprocessors: int,
    precision: str,
    spans: bool,
    for_parameters: bool,
) -> TensorPlan:
    size = next(size for size in TENSOR_SIZES if hidden <= size)

    def cost(layout: TensorPlan) -> int:
        blocks = layout.blocks(groups, batch)
        together = min(layout.resident, -(-blocks // multiprocessors))
        issue = layout.rows // 8 * _TENSOR_COSTS[size, precision]
        return -(-blocks // (multiprocessors * layout.resident)) * (_TENSOR_LATENCY + together * issue)

    return min(tensor_plans(size, precision, spans, for_parameters), key=cost)
