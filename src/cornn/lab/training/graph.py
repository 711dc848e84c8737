"""A training step as a CUDA graph: captured once, then replayed without launching its kernels one by one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from cornn.lab.training.batches import Feed
from cornn.lab.training.optimiser import take_step
from cornn.lab.training.side_by_side import SideBySide

WARM_UP_STEPS = 3
"""Steps before a capture, which let libraries allocate what they need. Their effects are undone."""


def can_capture(feed: Feed, fabric: Any) -> bool:
    """Whether steps can be captured: one process, a GPU, and batches whose shape does not change."""
    return fabric.device.type == "cuda" and fabric.world_size == 1 and feed.fixed_shape


class CapturedStep:
    """`take_step` for full batches as a CUDA graph; smaller batches are launched as they are.

    The graph contains the step alone. What happens between steps, such as DTRIV's change of base, happens between
    replays, in the memory that the graph reads.
    """

    def __init__(self, models: SideBySide, feed: Feed) -> None:
        self.models, self.feed = models, feed
        self.graph: torch.cuda.CUDAGraph | None = None
        self.value = models.losses

    def __call__(
        self, models: SideBySide, counts: Any, loss: Callable[[SideBySide, Any], Tensor], optimiser: Optimizer
    ) -> Tensor:
        if not self.feed.is_full(counts):
            return take_step(models, counts, loss, optimiser)
        if self.graph is None:
            self.graph = self._capture(lambda: take_step(models, counts, loss, optimiser))
        self.graph.replay()
        return self.value

    def _capture(self, step: Callable[[], Tensor]) -> torch.cuda.CUDAGraph:
        randoms = [state.random for state in self.feed.states]
        changing = [self.feed.rows, *(tensor for state in self.feed.states for tensor in state.tensors.values())]
        saved, states = [tensor.clone() for tensor in changing], [random.get_state() for random in randoms]

        def undo() -> None:
            for tensor, before in zip(changing, saved, strict=True):
                tensor.copy_(before)

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                step()
                undo()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        for random, state in zip(randoms, states, strict=True):
            random.set_state(state)
            graph.register_generator_state(random)
        with torch.cuda.graph(graph):
            self.value = step()
        undo()
        return graph
