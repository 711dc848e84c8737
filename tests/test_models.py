import pytest
import torch
from tolerances import FLOAT32
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from cornn import CoRNN
from cornn.baselines import LEM
from cornn.models import SequenceModel, count_parameters


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_shapes_of_both_readings(layers, bidirectional):
    input = torch.randn(7, 3, 2)
    for read, shape in (("last", (3, 5)), ("every", (7, 3, 5))):
        layer = CoRNN(2, 4, layers, bidirectional=bidirectional)
        assert SequenceModel(layer, 5, read=read)(input).shape == shape


def test_last_reads_y_after_the_last_step():
    layer = CoRNN(2, 4)
    model = SequenceModel(layer, 1)
    input = torch.randn(7, 3, 2)
    torch.testing.assert_close(model(input), model.head(layer(input)[0][-1]))


def test_parameters_of_the_papers_networks():
    """m(d + 2m + 1) + mc + c; the paper's table says 34k, 134k, 46k, 9k, 1k."""
    for inputs, hidden, outputs, want in (
        (2, 128, 1, 33_281),
        (1, 128, 10, 34_314),
        (1, 256, 10, 134_154),
        (96, 128, 10, 46_474),
        (9, 64, 1, 8_897),
        (9, 20, 1, 1_021),
        (5, 64, 5, 8_901),
    ):
        assert count_parameters(SequenceModel(CoRNN(inputs, hidden), outputs)) == want


@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_step_is_read_within_each_sequence(bidirectional):
    model = SequenceModel(CoRNN(2, 5, bidirectional=bidirectional), 1, read="every")
    input, lengths = torch.randn(6, 2, 2), torch.tensor([3, 6])
    found = model(input, lengths)
    assert found.shape == (6, 2, 1)
    torch.testing.assert_close(found[:3, 0], model(input[:3, :1])[:, 0])
    torch.testing.assert_close(found[:, 1], model(input[:, 1:])[:, 0])


@pytest.mark.parametrize("kind", [CoRNN, nn.LSTM])
def test_the_head_is_of_the_layers_type(kind):
    model = SequenceModel(kind(2, 4, dtype=torch.float64), 3)
    assert model(torch.randn(5, 2, 2, dtype=torch.float64)).dtype == torch.float64


def test_an_encoder_comes_first():
    model = SequenceModel(CoRNN(6, 4), 2, encoder=nn.Embedding(10, 6))
    assert model(torch.randint(0, 10, (7, 3))).shape == (3, 2)


def test_reset_is_a_function_of_the_generator():
    model = SequenceModel(CoRNN(2, 4), 1)
    model.reset_parameters(torch.Generator().manual_seed(3))
    first = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(99)
    model.reset_parameters(torch.Generator().manual_seed(3))
    for name, value in model.state_dict().items():
        assert torch.equal(value, first[name]), name


def test_unknown_reading():
    with pytest.raises(ValueError, match="unknown read 'first': choose last, every or mean"):
        SequenceModel(CoRNN(2, 4), 1, read="first")


@pytest.mark.parametrize("outputs", [0, True])
def test_the_number_of_outputs_is_a_positive_integer(outputs):
    with pytest.raises(ValueError, match=f"outputs must be a positive integer, got {outputs}"):
        SequenceModel(CoRNN(2, 4), outputs)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, CoRNN, LEM])
def test_a_batch_first_layer_is_an_error_with_the_remedy(kind):
    with pytest.raises(ValueError, match=r"build the layer with batch_first=False and pass input\.transpose"):
        SequenceModel(kind(3, 8, batch_first=True), 2)


def test_a_projection_is_an_error_with_the_remedy():
    with pytest.raises(ValueError, match=r"proj_size=2, .*: build the layer without proj_size"):
        SequenceModel(nn.LSTM(3, 8, proj_size=2), 2)


@pytest.mark.parametrize("module", [nn.Linear(3, 8), nn.LSTMCell(3, 8), nn.Identity()])
def test_only_recurrent_layers_are_accepted(module):
    with pytest.raises(TypeError, match=rf"layer is of type {type(module).__name__}, .*: pass CoRNN, .* nn.LSTM"):
        SequenceModel(module, 2)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, CoRNN])
def test_the_mean_is_over_the_steps_of_each_sequence(kind, bidirectional):
    layer = kind(2, 4, bidirectional=bidirectional)
    model = SequenceModel(layer, 5, read="mean")
    input, lengths = torch.randn(7, 3, 2), torch.tensor([7, 2, 5])
    want = torch.stack([layer(input[:length, [row]])[0][:, 0].mean(0) for row, length in enumerate(lengths)])
    torch.testing.assert_close(model(input, lengths), model.head(want), **FLOAT32)
    torch.testing.assert_close(model(input), model.head(layer(input)[0].mean(0)), **FLOAT32)


def test_a_model_that_reads_the_mean_is_not_streamed():
    with pytest.raises(TypeError, match='read="mean" needs the whole sequence: use read="last"'):
        SequenceModel(CoRNN(2, 4), 1, read="mean").stream()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, CoRNN])
def test_every_layer_is_read_at_each_sequences_end(kind):
    layer = kind(2, 4)
    model = SequenceModel(layer, 5)
    input, lengths = torch.randn(7, 3, 2), torch.tensor([7, 2, 5])
    want = torch.stack([layer(input[:length, [row]])[0][-1, 0] for row, length in enumerate(lengths)])
    torch.testing.assert_close(model(input, lengths), model.head(want), **FLOAT32)
    torch.testing.assert_close(model(input), model.head(layer(input)[0][-1]), **FLOAT32)
    assert SequenceModel(layer, 5, read="every")(input).shape == (7, 3, 5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_pytorchs_layers_are_drawn_from_the_generator_as_pytorch_draws_them(kind):
    models = [SequenceModel(kind(2, 100), 1) for _ in range(2)]
    for model in models:
        model.reset_parameters(torch.Generator().manual_seed(3))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)
    assert all(0.09 < parameter.abs().max() <= 0.1 for parameter in models[0].layer.parameters())


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        (torch.tensor([7, 2]), ValueError, r"lengths have shape \(2,\), expected \(3,\)"),
        (torch.tensor([7, 2, 8]), ValueError, "lengths must lie between 1 and 7, got 2 to 8"),
        (torch.tensor([7, 2, 0]), ValueError, "lengths must lie between 1 and 7, got 0 to 7"),
        (torch.tensor([7.0, 2.0, 5.0]), TypeError, "lengths must be an integer tensor"),
        ([7, 2, 5], TypeError, "lengths must be an integer tensor"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("kind", "read", "bidirectional"),
    [(nn.LSTM, "last", False), (nn.LSTM, "every", True), (CoRNN, "every", True), (CoRNN, "mean", False)],
)
def test_lengths_are_those_of_the_input(kind, read, bidirectional, lengths, error, message):
    model = SequenceModel(kind(2, 4, bidirectional=bidirectional), 5, read=read)
    with pytest.raises(error, match=message):
        model(torch.randn(7, 3, 2), lengths)


@pytest.mark.parametrize("read", ["last", "every", "mean"])
@pytest.mark.parametrize("kind", [nn.LSTM, CoRNN])
def test_a_packed_input_with_lengths(kind, read):
    packed = nn.utils.rnn.pack_sequence([torch.randn(7, 2), torch.randn(5, 2)])
    with pytest.raises(ValueError, match="a packed input already contains its lengths: omit lengths"):
        SequenceModel(kind(2, 4), 5, read=read)(packed, torch.tensor([7, 5]))


@pytest.mark.parametrize("kind", [nn.LSTM, CoRNN])
def test_a_packed_input_is_read_at_each_sequences_end(kind):
    layer, parts = kind(2, 4), [torch.randn(5, 2), torch.randn(7, 2)]
    packed = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    model = SequenceModel(layer, 3)
    torch.testing.assert_close(model(packed), torch.stack([model(part) for part in parts]), **FLOAT32)
    for read in ("every", "mean"):
        with pytest.raises(TypeError, match="pass the padded input and its lengths"):
            SequenceModel(layer, 3, read=read)(packed)


def doubled(input):
    return PackedSequence(2 * input.data, *input[1:]) if isinstance(input, PackedSequence) else 2 * input


class Doubled(CoRNN):
    """A layer of a user that changes its input."""

    def forward(self, input, state=None, **options):
        return super().forward(doubled(input), state, **options)


def doubled_by_a_hook(*sizes, **options):
    layer = CoRNN(*sizes, **options)
    layer.register_forward_pre_hook(lambda _, given: (doubled(given[0]),))
    return layer


@pytest.mark.parametrize("lengths", [None, torch.tensor([7, 2, 5])], ids=["whole", "lengths"])
@pytest.mark.parametrize("read", ["last", "every", "mean"])
@pytest.mark.parametrize("kind", [Doubled, doubled_by_a_hook])
def test_a_layer_is_called_with_its_own_forward_and_its_hooks(kind, read, lengths):
    layer, input = kind(2, 4, bidirectional=True), torch.randn(7, 3, 2)
    plain = CoRNN(2, 4, bidirectional=True)
    plain.load_state_dict(layer.state_dict())
    model, other = (SequenceModel(one, 5, read=read) for one in (layer, plain))
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(input, lengths), other(2 * input, lengths), **FLOAT32)


@pytest.mark.parametrize("read", ["last", "every", "mean"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [CoRNN, nn.LSTM])
def test_a_batch_without_sequences_has_no_lengths(kind, bidirectional, read):
    model = SequenceModel(kind(2, 4, bidirectional=bidirectional), 3, read=read)
    found = model(torch.randn(5, 0, 2), torch.zeros(0, dtype=torch.long))
    assert found.shape == ((5, 0, 3) if read == "every" else (0, 3))
    found.sum().backward()
