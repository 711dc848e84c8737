"""A layer of any registered update: its weights, what is saved of it, and what happens if the update is not there."""

import copy
import io
import pickle

import pytest
import torch
from own_updates import OSCILLATOR, OWN
from tolerances import FLOAT64

from cornn import CustomRNN, SequenceModel, engine
from cornn.saved_models import describe_model


@pytest.fixture
def registered(monkeypatch):
    for name, update in OWN.items():
        monkeypatch.setitem(engine.UPDATES, name, update)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("update", ["undamped", "plain", "gated", "lipschitz", "cornn/explicit/tanh"])
def test_it_is_a_loop_over_the_reference(update):
    rule = engine.find_update(update)
    layer = CustomRNN(2, 5, update=update, dtype=torch.float64)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    input = torch.randn(6, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    cell = layer.cell()
    state = (torch.zeros(3, 5, dtype=torch.float64),) * rule.states
    for u in input:
        drive = u @ cell.weight_ih.T + cell.bias
        state = rule.step(drive, state, cell.weight_hh, cell.constants.unbind(0))
    _, last = layer(input)
    parts = (last,) if rule.states == 1 else last
    torch.testing.assert_close(torch.cat(parts), torch.stack(state), **FLOAT64)
    one = cell(input[0])
    assert (one,)[0].shape == (3, 5) if rule.states == 1 else [part.shape for part in one] == [(3, 5)] * 2
    initial = torch.tensor(list(rule.parameters.values()), dtype=torch.float64)
    assert torch.equal(cell.constants.detach(), initial.unsqueeze(-1).expand(-1, 5))


def test_all_of_it_is_trained(registered):
    layer = CustomRNN(2, 5, update="undamped")
    assert layer.cell().states == ("x", "v")
    output, (x, v) = layer(torch.randn(6, 3, 2))
    (output.sum() + x.sum() + v.sum()).backward()
    assert {name for name, one in layer.named_parameters() if one.grad.abs().sum() > 0} == {
        f"cells.l0.{name}" for name in ("weight_ih", "weight_hh", "bias", "constants")
    }


def test_saved_models_store_the_name_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(engine.UPDATES, "undamped", OSCILLATOR)
    model = SequenceModel(CustomRNN(2, 5, update="undamped"), 1)
    spec = describe_model(model)
    assert spec.layer == "custom"
    assert spec.options == {"update": "undamped"}
    assert "tanh" not in repr(spec)
    input = torch.randn(6, 3, 2)
    again = spec.build(model.state_dict(), tmp_path)
    assert torch.equal(again(input), model(input))
    assert b"tanh" not in pickle.dumps(model.layer)
    assert torch.equal(copy.deepcopy(model)(input), model(input))

    monkeypatch.delitem(engine.UPDATES, "undamped")
    message = "unknown update 'undamped': register it with cornn.engine.register before you use it or load a model"
    with pytest.raises(engine.UnknownUpdateError, match=message) as failure:
        spec.build(model.state_dict(), tmp_path / "model.safetensors")
    assert str(failure.value).startswith(str(tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match=message):
        CustomRNN(2, 5, update="undamped")
    content = io.BytesIO(pickle.dumps(model.layer))
    with pytest.raises(ValueError, match=message):
        pickle.load(content)(input)


def test_an_update_of_one_pre_activation_has_no_timespans(registered):
    with pytest.raises(ValueError, match="timespans scale a time step, and the update smooth has none"):
        CustomRNN(2, 5, update="smooth")(torch.randn(6, 3, 2), timespans=torch.ones(6))
