"""The recurrence as a PyTorch operator: fake shapes, gradients, second gradients, and many models at once.

The operator includes the input map V u + b, so that its result can be overwritten by the activations: nothing of size
(time, batch, hidden) is kept but y, z and the activations. Second derivatives go through the reference.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cornn.engine import c, cuda, portable
from cornn.engine.problem import Gradients, active
from cornn.engine.updates import UPDATES
from cornn.functional import unroll

__all__ = ["BACKENDS", "recurrence", "reference", "wants_gradient"]

BACKENDS = {"cuda": cuda, "c": c, "portable": portable}
"""Name -> module, the most preferred first."""

ARGUMENTS = ("input", "state", "input_weight", "bias", "weight", "parameters", "timespans")


def _drive_(out: Tensor, input: Tensor, input_weight: Tensor | None, bias: Tensor | None) -> None:
    """out = V u + b for every step, as one product."""
    if input_weight is None:
        out.copy_(input)
    elif input_weight.dim() == 2:
        flat = out.view(-1, out.shape[-1])
        torch.mm(input.reshape(-1, input.shape[-1]), input_weight.T, out=flat)
    else:
        torch.matmul(input, input_weight.mT, out=out)
    if bias is not None:
        out += bias.unsqueeze(-2)


def _flat(sequence: Tensor) -> Tensor:
    """(time, batch, features) -> (time * batch, features); of a group (group, time * batch, features)."""
    if sequence.dim() == 4:
        return sequence.transpose(0, 1).flatten(1, 2)
    return sequence.flatten(0, 1)


def wants_gradient(arguments: Sequence[Tensor | None]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments)


@torch.library.custom_op("cornn::recurrence", mutates_args=())
def recurrence(
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
    backend: str,
    every: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(output, last, trail) of the recurrence; `problem.py` says what they are. Call it through `cornn.engine.run`."""
    blocks = UPDATES[update].trail if keep else 1
    trail = input.new_empty(blocks, *input.shape[:-1], weight.shape[-2])
    _drive_(trail[-1], input, input_weight, bias)
    output, last = BACKENDS[backend].forward(
        trail, state, weight, parameters, timespans, lengths, update=update, every=every, keep=keep
    )
    return output, last, trail if keep else trail.new_empty(0)


@recurrence.register_fake
def _(
    input, state, input_weight, bias, weight, parameters, timespans, lengths, update, backend, every, keep
):  # fmt: skip
    sequence = (*input.shape[:-1], weight.shape[-2])
    output = input.new_empty(sequence if keep or every else 0)
    trail = input.new_empty((UPDATES[update].trail, *sequence) if keep else 0)
    return output, torch.empty_like(state, memory_format=torch.contiguous_format), trail


@torch.library.custom_op("cornn::recurrence_backward", mutates_args=())
def recurrence_backward(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor,
    trail: Tensor,
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
    backend: str,
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients for `ARGUMENTS`, in their order; an empty tensor where `needs` says that none is wanted."""
    need = dict(zip(ARGUMENTS, needs, strict=True))
    gradients: Gradients = BACKENDS[backend].backward(
        grad_output,
        grad_last,
        output,
        trail,
        state,
        weight,
        parameters,
        timespans,
        lengths,
        update=update,
        need_parameters=need["parameters"],
        need_timespans=need["timespans"],
    )
    none = input.new_empty(0)
    drive = gradients.drive
    flat = _flat(drive)

    def for_input() -> Tensor:
        return drive.clone() if input_weight is None else drive @ input_weight

    def for_weight() -> Tensor:
        own = getattr(BACKENDS[backend], "weight_gradient", None)
        if own is not None:
            return own(drive, output, trail, state, weight, update=update)
        # y and z of the step before: the initial state, then all but the last of what was kept.
        later = _flat(drive[1:]).mT
        sequences = (output, *trail[: len(state) - 1])
        return torch.cat(
            [
                later @ _flat(sequence[:-1]) + drive[0].mT @ first
                for sequence, first in zip(sequences, state, strict=True)
            ],
            dim=-1,
        )

    return (
        for_input() if need["input"] else none,
        gradients.state if need["state"] else none.clone(),
        flat.mT @ _flat(input) if need["input_weight"] else none.clone(),
        flat.sum(-2) if need["bias"] else none.clone(),
        for_weight() if need["weight"] else none.clone(),
        gradients.parameters if gradients.parameters is not None else none.clone(),
        gradients.timespans if gradients.timespans is not None else none.clone(),
    )


@recurrence_backward.register_fake
def _(
    grad_output, grad_last, output, trail, input, state, input_weight, bias, weight, parameters, timespans, lengths,
    update, backend, needs
):  # fmt: skip
    arguments = (input, state, input_weight, bias, weight, parameters, timespans)
    return tuple(
        input.new_empty(argument.shape if need else 0) for argument, need in zip(arguments, needs, strict=True)
    )


def _setup(ctx, inputs, output) -> None:
    *tensors, ctx.update, ctx.backend, _, _ = inputs
    ctx.save_for_backward(*tensors, output[0], output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx, grad_output, grad_last, grad_trail):
    *tensors, lengths, output, trail = ctx.saved_tensors
    if grad_output is None and grad_last is None:
        return (None,) * 12
    needs = list(ctx.needs_input_grad[: len(ARGUMENTS)])
    gradients = recurrence_backward(
        grad_output, grad_last, output, trail, *tensors, lengths, ctx.update, ctx.backend, needs
    )
    wanted = [gradient if need else None for gradient, need in zip(gradients, needs, strict=True)]
    return (*wanted, None, None, None, None, None)


recurrence.register_autograd(_gradients, setup_context=_setup)


def reference(
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
) -> tuple[Tensor, Tensor]:
    """(output, last) by the plain equations, differentiable any number of times."""
    rule = UPDATES[update]
    drive = input if input_weight is None else input @ input_weight.mT
    if bias is not None:
        drive = drive + bias.unsqueeze(-2)
    if lengths is not None:
        timespans = active(lengths, drive) * (1 if timespans is None else timespans)
    hidden = weight.shape[-2]
    output, last = unroll(
        drive,
        *state,
        weight[..., :hidden],
        weight[..., hidden:],
        *parameters.unsqueeze(-2),
        timespans=timespans,
        damping=rule.damping,
        activation=rule.activation,
    )
    return output, torch.stack(last)


def _setup_second(ctx, inputs, output) -> None:
    grad_output, grad_last, _, _, *tensors, ctx.update, _, ctx.needs = inputs
    ctx.save_for_backward(grad_output, grad_last, *tensors)
    ctx.set_materialize_grads(False)


def _second_gradients(ctx, *grads):
    """The gradient of the gradient, by differentiating the reference twice."""
    grad_output, grad_last, *arguments, lengths = ctx.saved_tensors
    if all(grad is None for grad in grads):
        return (None,) * 15
    with torch.enable_grad():
        variables = [None if x is None else x.detach().requires_grad_() for x in (grad_output, grad_last, *arguments)]
        given, arguments = variables[:2], variables[2:]
        pairs = [
            (y, g) for y, g in zip(reference(*arguments, lengths, ctx.update), given, strict=True) if g is not None
        ]
        asked = [(x, g) for x, need, g in zip(arguments, ctx.needs, grads, strict=True) if need and g is not None]
        outputs, weights = zip(*pairs, strict=True)
        inputs, seconds = zip(*asked, strict=True)
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True)
        present = [x for x in variables if x is not None]
        second = torch.autograd.grad(first, present, seconds, allow_unused=True)
    found = iter(second)
    for_output, for_last, *for_arguments = [None if x is None else next(found) for x in variables]
    return for_output, for_last, None, None, *for_arguments, None, None, None, None


recurrence_backward.register_autograd(_second_gradients, setup_context=_setup_second)


# Where a group of models puts its dimension, argument by argument and result by result.
_GROUP = {"input": 1, "state": 1, "input_weight": 0, "bias": 0, "weight": 0, "parameters": 1, "timespans": 1}
_GROUP_FORWARD = (*_GROUP.values(), 0)
_GROUP_BACKWARD = (1, 1, 1, 2, *_GROUP_FORWARD)


def _group(info, in_dims, arguments, places) -> list[Tensor | None]:
    """Each tensor with its group dimension where the backends expect it; what is shared is expanded."""
    grouped = []
    for argument, dim, place in zip(arguments, in_dims, places, strict=True):
        if argument is not None and dim is None:
            shape = argument.shape
            argument = argument.unsqueeze(place).expand(*shape[:place], info.batch_size, *shape[place:])
        elif argument is not None:
            argument = argument.movedim(dim, place)
        grouped.append(argument)
    weight = grouped[len(places) - 4]
    if weight.dim() > 3:
        raise NotImplementedError("vmap over the recurrence goes one level deep: stack all models in one dimension")
    return grouped


def _dims(results: tuple[Tensor, ...], places) -> tuple[int | None, ...]:
    return tuple(place if result.numel() else None for result, place in zip(results, places, strict=True))


@recurrence.register_vmap
def _(info, in_dims, *arguments):
    *tensors, update, backend, every, keep = arguments
    grouped = _group(info, in_dims[: len(tensors)], tensors, _GROUP_FORWARD)
    # Whether a gradient is wanted shows only once the wrapping of vmap is off.
    results = recurrence(*grouped, update, backend, every, keep or wants_gradient(grouped))
    return results, _dims(results, (1, 1, 2))


@recurrence_backward.register_vmap
def _(info, in_dims, *arguments):
    *tensors, update, backend, needs = arguments
    grouped = _group(info, in_dims[: len(tensors)], tensors, _GROUP_BACKWARD)
    results = recurrence_backward(*grouped, update, backend, needs)
    return results, _dims(results, tuple(_GROUP.values()))
