"""Several models of one shape that are trained as one; a single model is the simplest case.

All weights of all models are one tensor (models, numbers), and so are the gradients and the optimiser's moments: the
arithmetic of a step on them is a handful of operations whatever the model is made of.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cornn._stacking import Stack
from cornn.baselines import LEM
from cornn.lab.tasks import Batch
from cornn.lab.training.state import RunState


def name_parameters(model: nn.Module, row: Tensor) -> dict[str, Tensor]:
    """Return views of a row of numbers as the parameters of a model, by name. Leading dimensions stay in front."""
    parts = row.split([parameter.numel() for parameter in model.parameters()], -1)
    return {
        name: part.unflatten(-1, parameter.shape) if parameter.dim() else part.squeeze(-1)
        for part, (name, parameter) in zip(parts, model.named_parameters(), strict=True)
    }


def fits_side_by_side(states: Sequence[RunState], device: torch.device) -> bool:
    """Whether runs can be trained as one: the engine has layers for that, and their batches have one shape.

    Adversarial training takes one model. LEM's kernels for GPUs take one model, and are faster than its steps for many.
    """
    layers = [state.model.layer for state in states]
    stackable = all(isinstance(layer, Stack) for layer in layers)
    has_kernels = device.type == "cuda" and any(isinstance(layer, LEM) for layer in layers)
    ragged = any(state.training.ragged for state in states)
    perturbed = any(state.config.optimiser.adversarial for state in states)  # by hooks, which vmap does not support
    same_batch = len({state.plan.batch for state in states}) <= 1
    return stackable and same_batch and not (has_kernels or ragged or perturbed)


class SideBySide:
    """The models of several runs, called with a batch for each. `leaves` are the tensors that receive gradients."""

    def __init__(self, states: Sequence[RunState], device: torch.device) -> None:
        self.states = list(states)
        rows = [nn.utils.parameters_to_vector(state.model.parameters()).detach() for state in states]
        self.weights = torch.stack(rows).to(device)  # (models, numbers)
        self.average = self.weights.clone() if states[0].config.optimiser.ema else None
        self.gradient = torch.zeros_like(self.weights)
        self.losses = torch.zeros(len(states), device=device)  # summed over the steps since the latest evaluation
        # Stacked buffers of several models; a single model is called with its own.
        self.buffers: dict[str, Tensor] = {}
        self._predict, self.leaves = (_call_alone if len(states) == 1 else _call_together)(self)
        for number, state in enumerate(states):
            state.side_by_side = max(state.side_by_side, len(states))
            state.tensors |= {"weights": self.weights[number], "loss": self.losses[number]}
            if self.average is not None:
                state.tensors["average"] = self.average[number]

    def __call__(self, batch: Batch) -> Any:
        """Return a list of one prediction for a plain batch, or a tensor (models, ...) for a stacked one."""
        return self._predict(batch)

    @torch.no_grad()
    def take_buffers(self) -> None:
        """Use the buffers of the models as they are now."""
        for number, state in enumerate(self.states):
            for name, buffer in state.model.named_buffers():
                if name in self.buffers:
                    self.buffers[name][number] = buffer

    @torch.no_grad()
    def rebase(self, fabric: Any) -> None:
        """Change the base point of DTRIV to its current matrices. The moments stay, as in its author's code."""
        for number, state in enumerate(self.states):
            model = state.model
            for parameter, value in zip(
                model.parameters(), name_parameters(model, self.weights[number]).values(), strict=True
            ):
                parameter.copy_(value)
            model.layer.rebase_()  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
            self.weights[number] = nn.utils.parameters_to_vector(model.parameters())
            if fabric.world_size > 1:  # all processes must have bit-identical numbers
                for buffer in model.buffers():
                    buffer.copy_(fabric.broadcast(buffer))
        self.take_buffers()


Predict = Callable[[Batch], Any]


def _call_alone(models: SideBySide) -> tuple[Predict, list[Tensor]]:
    """Call one model directly; its parameters become views of the weights."""
    model = models.states[0].model
    for parameter, view in zip(model.parameters(), name_parameters(model, models.weights[0]).values(), strict=True):
        parameter.data = view
    return lambda batch: [model(batch.input, batch.lengths)], list(model.parameters())


def _call_together(models: SideBySide) -> tuple[Predict, list[Tensor]]:
    """Call many models of one shape in one call, which reaches the engine as one launch."""
    modules = [state.model for state in models.states]
    _, models.buffers = torch.func.stack_module_state(modules)  # pyright: ignore[reportArgumentType]
    views = name_parameters(modules[0], models.weights)
    leaves = {name: view.detach().requires_grad_() for name, view in views.items()}

    def call(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], input: Tensor, lengths: Tensor | None):
        return torch.func.functional_call(modules[0], (dict(weights), dict(buffers)), (input, lengths))

    def predict(batch: Batch) -> Tensor:
        dims = (0, 0, 1, None if batch.lengths is None else 0)
        return torch.vmap(call, in_dims=dims)(leaves, models.buffers, batch.input, batch.lengths)

    return predict, list(leaves.values())
