"""A saved model is built again from its file alone."""

from dataclasses import replace

import pytest
import torch
from damage import small_model
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cornn import CoRNN, SequenceModel
from cornn._checksums import DamagedFileError
from cornn.baselines import MODELS
from cornn.saved_models import describe_model, pack_model, unpack_model


def build_again(model, path):
    content = pack_model(model.state_dict(), describe_model(model))
    weights, spec = unpack_model(content, path, "train again")
    return spec.build(weights, path)


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_is_built_again_from_its_arguments(name, tmp_path):
    model = small_model(name)
    input = torch.randn(5, 3, 2)
    with torch.no_grad():
        torch.testing.assert_close(build_again(model, tmp_path / "a")(input), model.eval()(input), rtol=0, atol=0)


def test_options_of_a_layer_are_stored(tmp_path):
    layer = CoRNN(
        2, 3, num_layers=2, bidirectional=True, dt=0.3, gamma=[1.0, 2.0, 3.0], epsilon=2.0, damping="implicit"
    )
    model = SequenceModel(layer, 2, read="every", encoder=nn.Embedding(7, 2))
    words = torch.randint(0, 7, (5, 3))
    with torch.no_grad():
        assert torch.equal(build_again(model, tmp_path / "a")(words), model(words))


@pytest.mark.parametrize("name", ["cornn", "lstm", "lem", "custom"])
@pytest.mark.parametrize("words", [False, True])
def test_the_type_of_the_weights_is_kept(name, words, tmp_path):
    encoder = nn.Embedding(7, 2) if words else None
    model = SequenceModel(MODELS[name].layer(2, 4), 2, encoder=encoder).double()
    input = torch.randint(0, 7, (5, 3)) if words else torch.randn(5, 3, 2, dtype=torch.float64)
    again = build_again(model, tmp_path / "a")
    assert {value.dtype for value in again.state_dict().values()} == {torch.float64}
    with torch.no_grad():
        assert torch.equal(again(input), model(input))


def test_the_nonlinearity_of_an_rnn_is_stored(tmp_path):
    model, input = SequenceModel(nn.RNN(2, 4, nonlinearity="relu"), 2), torch.randn(5, 3, 2)
    with torch.no_grad():
        assert torch.equal(build_again(model, tmp_path / "a")(input), model(input))


def test_weights_of_another_model_are_an_error_with_the_file(tmp_path):
    spec, other = describe_model(small_model()), SequenceModel(CoRNN(2, 4), 1)
    assert spec is not None
    with pytest.raises(DamagedFileError, match="a: its weights and the arguments of the model do not match"):
        spec.build(other.state_dict(), tmp_path / "a")


SIZES = {
    "hidden_size": ({"hidden_size": 200}, r"head.weight has shape \(2, 4\), expected \(2, 200\)"),
    "num_layers": ({"num_layers": 200}, "num_layers is 200, the file has"),
    "input_size": ({"input_size": 10**15}, "size mismatch for layer.cells.l0.weight_ih"),
    "device": ({"device": "meta"}, "multiple values for keyword argument 'device'"),
}


@pytest.mark.parametrize(("arguments", "problem"), SIZES.values(), ids=SIZES)
def test_sizes_are_checked_before_memory_is_allocated(arguments, problem, tmp_path):
    model = small_model()
    spec = describe_model(model)
    assert spec is not None
    with pytest.raises(DamagedFileError, match=problem) as caught:
        replace(spec, arguments=spec.arguments | arguments).build(model.state_dict(), tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_the_size_of_a_vocabulary_is_checked_before_memory_is_allocated(tmp_path):
    model = SequenceModel(CoRNN(2, 4), 2, encoder=nn.Embedding(7, 2))
    spec = describe_model(model)
    assert spec is not None
    with pytest.raises(DamagedFileError, match=r"size mismatch for encoder\.weight"):
        replace(spec, words=10**15).build(model.state_dict(), tmp_path / "a")


class LargestOnCPU(TorchDispatchMode):
    """Record the largest number of values of a tensor that an operation makes on the CPU."""

    values = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        found = (x.numel() for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.device.type == "cpu")
        self.values = max(self.values, *found, 0)
        return result


@pytest.mark.parametrize("name", [name for name in MODELS if name != "custom"])
def test_a_layer_without_memory_takes_little_of_the_cpu(name):
    hidden = 300
    with LargestOnCPU() as largest:
        MODELS[name].layer(hidden, hidden, device="meta")
    assert largest.values <= 10 * hidden


@pytest.mark.parametrize("name", ["cornn", "exprnn", "dtriv"])
def test_a_small_file_with_a_large_layer_takes_little_memory(name, tmp_path):
    hidden = 300
    spec = describe_model(SequenceModel(MODELS[name].layer(2, 4), 1))
    assert spec is not None
    weights = SequenceModel(MODELS[name].layer(2, 4), 1).state_dict() | {"head.weight": torch.zeros(1, hidden)}
    with LargestOnCPU() as largest, pytest.raises(DamagedFileError, match="do not match"):
        replace(spec, arguments=spec.arguments | {"hidden_size": hidden}).build(weights, tmp_path / "a")
    assert largest.values <= 10 * hidden


@pytest.mark.parametrize(("outputs", "layers"), [(0, 1), (1, 3)])
def test_a_layer_has_as_many_numbers_as_neurons(outputs, layers, tmp_path):
    model = small_model()
    spec = describe_model(model)
    assert spec is not None
    size = 10**12 if outputs == 0 else 10**3
    weights = model.state_dict() | {"head.weight": torch.zeros(outputs, size)}
    changed = replace(spec, arguments=spec.arguments | {"hidden_size": size, "num_layers": layers}, outputs=outputs)
    with pytest.raises(DamagedFileError, match=f"{layers} layers of {size} neurons need more than the"):
        changed.build(weights, tmp_path / "a")


@pytest.mark.parametrize("name", ["cornn", "exprnn", "dtriv"])
def test_a_layer_made_without_memory_can_be_initialised_later(name):
    layer = MODELS[name].layer(2, 6, device="meta").to_empty(device="cpu")
    layer.reset_parameters(torch.Generator().manual_seed(0))
    expected = MODELS[name].layer(2, 6)
    expected.reset_parameters(torch.Generator().manual_seed(0))
    for key, value in expected.state_dict().items():
        assert torch.equal(layer.state_dict()[key], value), key


def test_a_layer_of_the_user_has_no_description():
    class OwnLayer(CoRNN):
        pass

    assert describe_model(SequenceModel(OwnLayer(2, 3), 1)) is None
