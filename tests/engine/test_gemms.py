"""What is made around a backend: the drive, unless it makes that itself, and the gradients of the weights."""

from types import SimpleNamespace

import pytest
import torch
from test_engine import arguments, assert_same, results
from tolerances import FLOAT64
from torch.library import opcheck

from cornn import engine
from cornn.engine import gemms
from cornn.engine.backends import portable
from cornn.engine.op import recurrence


@pytest.fixture
def maker(monkeypatch):
    """A backend that makes the drive of up to two features itself, and notes what it was given of the trail."""
    seen = []

    def makes_drive(update, hidden, features):
        return features <= 2

    def forward(given, trail, *, keep, **options):
        seen.append((given.input_weight is not None, len(trail)))
        if given.input_weight is None:
            return portable.forward(given, trail, keep=keep, **options)
        room = trail if keep else trail.new_empty(1, *trail.shape[1:])
        room[-1] = given.input @ given.input_weight.mT
        if given.bias is not None:
            room[-1] += given.bias.unsqueeze(-2)
        return portable.forward(given, room, keep=keep, **options)

    passes = {"usable": portable.usable, "forward": forward, "backward": portable.backward}
    monkeypatch.setitem(engine.BACKENDS, "maker", SimpleNamespace(**passes, makes_drive=makes_drive))
    return seen


@pytest.mark.parametrize("update", ["cornn/explicit/tanh", "gated"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_backend_may_make_the_drive(maker, update, bias):
    given_, lengths = arguments(5, 3, 4, 2, update=update, ragged=True)
    if not bias:
        given_["bias"] = None
    want = results(given_, lengths, update, "reference")
    assert_same(results(given_, lengths, update, "maker"), want, **FLOAT64)
    blocks = engine.UPDATES[update].trail
    assert maker == [(True, blocks)]
    with torch.no_grad():
        _, last = engine.run(**given_, lengths=lengths, update=update, backend="maker", every=False)
    torch.testing.assert_close(last, want["last"], **FLOAT64)
    assert maker == [(True, blocks), (True, 0)]
    opcheck(recurrence, (*given_.values(), lengths, update, "maker", True, True))


def test_a_backend_makes_no_drive_that_is_given_or_too_wide(maker):
    update = "cornn/explicit/tanh"
    wide, _ = arguments(5, 3, 4, 3)
    given_ = {**wide, "input": torch.randn(5, 3, 4, dtype=torch.float64), "input_weight": None}
    for case in (wide, given_):
        with torch.no_grad():
            got, _ = engine.run(**case, update=update, backend="maker")
            want, _ = engine.run(**case, update=update, backend="reference")
        torch.testing.assert_close(got, want, **FLOAT64)
    assert maker == [(False, 1), (False, 1)]


def test_the_gradients_of_many_models_are_the_same_sequence_by_sequence():
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(5, 3, 4, size, generator=random, dtype=torch.float64) for size in (6, 2))
    wanted = torch.einsum("tgbi,tgbj->gij", left, right)
    torch.testing.assert_close(gemms._by_sequence(left, right), wanted, **FLOAT64)
    torch.testing.assert_close(gemms._over_steps(left, right), wanted, **FLOAT64)
