"""The products over all steps: the drive before a recurrence, and the gradients of the weights after it."""

import pytest
import torch
from test_engine import arguments, assert_same, results
from tolerances import FLOAT64

from cornn.engine import gemms
from cornn.engine.backends import portable
from cornn.engine.contract import BackwardInputs, Needs, Operands, Request
from cornn.engine.updates import UPDATES


@pytest.mark.parametrize("update", ["cornn/explicit/tanh", "gated"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_a_trail_starts_with_the_drive(update, bias, weight, keep):
    rule = UPDATES[update]
    given, _ = arguments(5, 3, 4, 2 if weight else rule.drives * 4, update=update)
    given |= ({} if bias else {"bias": None}) | ({} if weight else {"input_weight": None})
    given = Operands(**{name: None if x is None else x.detach() for name, x in given.items()}, lengths=None)
    trail = gemms.start_trail(given, Request(rule, keep=keep))
    want = given.input if given.input_weight is None else given.input @ given.input_weight.T
    torch.testing.assert_close(trail[-1], want if given.bias is None else want + given.bias, **FLOAT64)
    assert len(trail) == (rule.trail if keep else 1)


@pytest.mark.parametrize("update", ["cornn/explicit/tanh", "gated", "lipschitz"])
@pytest.mark.parametrize("steps", [1, 4])
def test_without_a_state_it_starts_from_zeros(update, steps):
    given, lengths = arguments(steps, 3, 4, 2, update=update, ragged=True)
    zeros = given | {"state": torch.zeros_like(given["state"]).requires_grad_()}
    want = results(zeros, lengths, update, "reference")
    for backend in ("reference", "portable", "c"):
        got = results(given | {"state": None}, lengths, update, backend)
        assert_same(got, {name: value for name, value in want.items() if name in got}, **FLOAT64)


def test_the_gradients_of_many_models_are_the_same_sequence_by_sequence():
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(5, 3, 4, size, generator=random, dtype=torch.float64) for size in (6, 2))
    wanted = torch.einsum("tgbi,tgbj->gij", left, right)
    torch.testing.assert_close(gemms._by_sequence(left, right), wanted, **FLOAT64)
    torch.testing.assert_close(gemms._over_steps(left, right), wanted, **FLOAT64)


def test_strides_do_not_matter():
    rule = UPDATES["cornn/explicit/tanh"]
    given = Operands(
        **{name: x if x is None else x.detach() for name, x in arguments(5, 3, 4, 2)[0].items()}, lengths=None
    )
    output, last, trail = portable.forward(given, Request(rule, keep=True))
    needs = Needs(*[x is not None for x in given[:-1]])
    found = []
    for change in (torch.clone, lambda x: x.mT.contiguous().mT):
        after = BackwardInputs(change(output), last, change(output), change(trail))
        found.append(portable.backward(given, after, Request(rule, keep=True), needs))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)
