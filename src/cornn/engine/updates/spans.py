"""coRNN over durations: x -> x* + M^s (x - x*) for a step of s steps, x = (y, z), with the force held.

The parameters are those of `functional.spectrum`. A step moves the state by the loss D = I - M^s = a I - b N:

    offset = y - compliance * sigma(pre)
    y = y - D_yy * offset - D_yz * z
    z = z - D_zy * offset - D_zz * z

The kernels are csrc/spans.h and `Spans` in kernels/update.cuh. They do not compute gradients of the parameters; where
these are needed, `engine.run` uses the portable backend.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.engine.updates.oscillator import TimedUpdate
from cornn.engine.updates.update import InPlace, pull_back
from cornn.functional import ACTIVATIONS, Spectrum, decay

__all__ = ["SPANS", "Losses", "Spans"]


class Losses(NamedTuple):
    """The coefficients of a step; see above."""

    yy: Tensor
    yz: Tensor
    zy: Tensor
    zz: Tensor
    compliance: Tensor


class Spans(TimedUpdate):
    """coRNN's update over durations. There is one object per activation, in `SPANS`."""

    kernel = "Spans"

    def __init__(self, activation: str) -> None:
        def reference(pre, y, z, *parameters):
            k = find_losses(Spectrum(*parameters), torch.ones_like(pre[..., :1]))
            offset = y - k.compliance * ACTIVATIONS[activation](pre)
            return y - k.yy * offset - k.yz * z, z - k.zy * offset - k.zz * z

        object.__setattr__(self, "activation", activation)
        super().__init__(
            f"cornn/spans/{activation}",
            # one step with dt = 0.5, gamma = 0.5 and epsilon = 4
            dict(zip(Spectrum._fields, (0, -0.0675, -0.066, 0, 1, -0.066, -0.2668, -0.1334, 1.067, 2), strict=True)),
            reference,
            state=("y", "z"),
            in_place=InPlace(self._step_, self._adjoint_),
        )

    def coefficients(self, parameters: Tensor, span: Tensor | None) -> Losses:
        """`parameters` is (10, 1, hidden), or (10, group, 1, hidden); `span` is (batch, 1), or None for 1."""
        return find_losses(Spectrum(*parameters), parameters.new_ones(1) if span is None else span)

    def parameter_gradients(
        self, parameters: Tensor, span: Tensor | None, gradient: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Tensor]:
        """Turn gradients of the losses into those of the parameters and of the span, not yet summed."""
        shape = gradient[0].shape
        operands = (*parameters.unbind(0), parameters.new_ones(1) if span is None else span)
        *terms, for_span = pull_back(
            lambda *values: tuple(find_losses(Spectrum(*values[:-1]), values[-1])),
            [x.expand(shape) for x in operands],
            gradient,
        )
        return terms, for_span

    def _step_(self, pre, state, k, after) -> None:
        (y, z), (next_y, next_z), sigma = state, after, self.saved
        offset = torch.addcmul(y, sigma.value(sigma.save_(pre)), k.compliance, value=-1)
        torch.addcmul(y, offset, k.yy, value=-1, out=next_y).addcmul_(z, k.yz, value=-1)
        torch.addcmul(z, offset, k.zy, value=-1, out=next_z).addcmul_(z, k.zz, value=-1)

    def _adjoint_(self, gradient, kept, before, after, k, delta, sums) -> None:
        (grad_y, grad_z), (y, z), sigma = gradient, before, self.saved
        for_offset = (grad_y * k.yy).addcmul_(grad_z, k.zy)  # with the sign changed
        if sums is not None:
            force = sigma.value(kept)
            offset = torch.addcmul(y, force, k.compliance, value=-1)
            sums[0].addcmul_(grad_y, offset, value=-1)
            sums[1].addcmul_(grad_y, z, value=-1)
            sums[2].addcmul_(grad_z, offset, value=-1)
            sums[3].addcmul_(grad_z, z, value=-1)
            sums[4].addcmul_(for_offset, force)
        torch.mul(for_offset, k.compliance, out=delta)
        sigma.backward_(delta, kept, delta)
        grad_z.addcmul_(grad_z, k.zz, value=-1).addcmul_(grad_y, k.yz, value=-1)
        grad_y.sub_(for_offset)


def find_losses(of: Spectrum, span: Tensor) -> Losses:
    """Return the coefficients of a step of some durations."""
    a, b = decay(of, span)
    return Losses(a - b * of.yy, -b * of.yz, -b * of.zy, a - b * of.zz, of.compliance)


SPANS = {activation: Spans(activation) for activation in ACTIVATIONS}
"""Activation -> coRNN's update over durations."""
