"""The contract of `nn.LSTM`: the same cases on it and on every recurrent layer of ours.

A new entry of `baselines.MODELS` joins here if the engine runs its cell, and otherwise in
tests/baselines/test_stepwise.py, each without a change to the tests. A state is one tensor or a
tuple of them; nothing else is assumed of it.
"""

import copy
import pickle

import jaxtyping
import pytest
import torch
from safetensors.torch import load_file, save_file
from tolerances import BFLOAT16, FINITE_DIFFERENCES, FLOAT32, FLOAT64
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from cornn import CoRNN, baselines

LAYERS = {
    "LSTM": nn.LSTM,
    "CoRNN": CoRNN,
    # Those of several products a step are in tests/baselines/test_stepwise.py.
    **{layer.__name__: layer for layer in baselines.LAYERS.values() if issubclass(layer.kind, baselines.layer.Cell)},
}
OURS = tuple(kind for kind in LAYERS if kind != "LSTM")

TIME, BATCH, FEATURES, HIDDEN = 6, 4, 3, 5
NETS = {
    "one-layer": {},
    "two-layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "two-layers-bidirectional": {"num_layers": 2, "bidirectional": True},
}

every_layer = pytest.mark.parametrize("kind", LAYERS)
our_layers = pytest.mark.parametrize("kind", OURS)
# Layers and directions are the work of `Stack`, which all of ours share: the rivals are tried with all of it at once.
PAIRS = [
    pytest.param(kind, net, id=f"{name}-{kind}")
    for kind in LAYERS
    for name, net in NETS.items()
    if kind in ("LSTM", "CoRNN") or name == "two-layers-bidirectional"
]
every_layer_and_net = pytest.mark.parametrize(("kind", "net"), PAIRS)
our_layers_and_nets = pytest.mark.parametrize(("kind", "net"), [pair for pair in PAIRS if pair.values[0] in OURS])
batch_first_or_not = pytest.mark.parametrize("batch_first", [False, True], ids=["time-first", "batch-first"])
state_given_or_not = pytest.mark.parametrize("given", [False, True], ids=["no-state", "state"])


@pytest.fixture(autouse=True)
def _seed():
    """`nn.LSTM` draws its weights from PyTorch's own generator."""
    torch.manual_seed(0)


@pytest.fixture
def compiler(monkeypatch):
    """Dynamo as new, and no run-time checks of shapes, which it cannot trace."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    torch.compiler.reset()


def make(kind, dtype=torch.float64, **options):
    return LAYERS[kind](FEATURES, HIDDEN, dtype=dtype, **options)


def data(*shape, dtype=torch.float64):
    return torch.randn(*(shape or (TIME, BATCH, FEATURES)), dtype=dtype)


def parts(state):
    return (state,) if isinstance(state, Tensor) else tuple(state)


def mapped(function, state):
    """`function` on each part of a state, in a state of the same make."""
    return function(state) if isinstance(state, Tensor) else tuple(function(part) for part in state)


def random_state(layer, input):
    """A state such as `layer` takes for `input`."""
    with torch.no_grad():
        return mapped(torch.randn_like, layer(input)[1])


def assert_same(got, want, tolerance=FLOAT64):
    """Equal (output, state), up to rounding."""
    (got_output, got_state), (want_output, want_state) = got, want
    torch.testing.assert_close(got_output, want_output, **tolerance)
    torch.testing.assert_close(parts(got_state), parts(want_state), **tolerance)


def scaled(tolerance, want):
    """Roundings are in proportion to the numbers they happen to, and `tolerance` is for numbers of size 1."""
    size = max(1.0, *(tensor.detach().abs().max().item() for tensor in (want[0], *parts(want[1]))))
    return tolerance | {"atol": tolerance["atol"] * size}


def assert_equal(got, want):
    """Equal (output, state), to the bit."""
    assert_same(got, want, {"rtol": 0, "atol": 0})


def loss(output, state):
    """A number to which every output and every part of the state contributes."""
    data = output.data if isinstance(output, PackedSequence) else output
    return data.square().sum() + sum(part.square().sum() for part in parts(state))


def gradients(layer, *variables):
    """A function of (output, state): the gradients of `loss` for all parameters and `variables`."""
    return lambda output, state: torch.autograd.grad(loss(output, state), [*layer.parameters(), *variables])


def refused(kind, sentence):
    """Both libraries raise; the sentence is ours."""
    return pytest.raises((ValueError, RuntimeError), match=sentence if kind in OURS else None)


@every_layer
def test_constructor_takes_the_arguments_of_lstm_by_position(kind):
    layer = LAYERS[kind](FEATURES, HIDDEN, 2, False, True, 0.25, True)
    assert (layer.input_size, layer.hidden_size, layer.num_layers) == (FEATURES, HIDDEN, 2)
    assert (layer.bias, layer.batch_first, layer.dropout, layer.bidirectional) == (False, True, 0.25, True)
    layer.flatten_parameters()


@every_layer_and_net
@batch_first_or_not
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_shapes_of_output_and_state(kind, net, batch_first, bias):
    layer = make(kind, batch_first=batch_first, bias=bias, **net)
    layers, directions = net.get("num_layers", 1), 2 if net.get("bidirectional") else 1
    output, state = layer(data(BATCH, TIME, FEATURES) if batch_first else data())
    assert output.shape == ((BATCH, TIME) if batch_first else (TIME, BATCH)) + (directions * HIDDEN,)
    assert all(part.shape == (directions * layers, BATCH, HIDDEN) for part in parts(state))
    assert all(("bias" in name) <= bias for name, _ in layer.named_parameters())


@every_layer_and_net
def test_last_layer_of_the_state_is_the_end_of_the_output(kind, net):
    layer = make(kind, **net)
    output, state = layer(data())
    first = parts(state)[0]
    if layer.bidirectional:
        assert torch.equal(output[-1, :, :HIDDEN], first[-2])
        assert torch.equal(output[0, :, HIDDEN:], first[-1])
    else:
        assert torch.equal(output[-1], first[-1])


@every_layer_and_net
@batch_first_or_not
@state_given_or_not
def test_unbatched_input_is_a_batch_of_one(kind, net, batch_first, given):
    layer = make(kind, batch_first=batch_first, **net)
    input = data(TIME, FEATURES)
    state = random_state(layer, input) if given else None
    where = 0 if batch_first else 1
    batched_state = mapped(lambda part: part.unsqueeze(1), state) if given else None
    output, last = layer(input.unsqueeze(where), batched_state)
    assert_same(layer(input, state), (output.squeeze(where), mapped(lambda part: part.squeeze(1), last)))


@every_layer_and_net
def test_state_is_zeros_by_default(kind, net):
    layer, input = make(kind, **net), data()
    zeros = mapped(torch.zeros_like, random_state(layer, input))
    assert_equal(layer(input), layer(input, zeros))


@every_layer_and_net
def test_batch_first_is_a_transpose(kind, net):
    layer, input = make(kind, **net), data()
    other = make(kind, batch_first=True, **net)
    other.load_state_dict(layer.state_dict())
    state = random_state(layer, input)
    output, last = other(input.transpose(0, 1), state)
    assert_same((output.transpose(0, 1), last), layer(input, state))


@every_layer_and_net
@state_given_or_not
@pytest.mark.parametrize(
    ("lengths", "batch_first"),
    [((6, 4, 4, 1), False), ((4, 1, 6, 4), True)],
    ids=["sorted", "unsorted-batch-first"],
)
def test_packed_sequences_are_each_run_alone(kind, net, batch_first, given, lengths):
    layer, input = make(kind, batch_first=batch_first, **net), data().requires_grad_()
    state = random_state(layer, input.transpose(0, 1) if batch_first else input) if given else None
    started = [part.requires_grad_() for part in parts(state)] if given else []
    found = gradients(layer, input, *started)

    packed = pack_padded_sequence(input, torch.tensor(lengths), enforce_sorted=list(lengths) == sorted(lengths)[::-1])
    packed_output, last = layer(packed, state)
    output, ends = pad_packed_sequence(packed_output)

    alone = []
    for column, length in enumerate(lengths):
        first = mapped(lambda part, column=column: part[:, column], state) if given else None
        alone.append(layer(input[:length, column], first))
    want = nn.utils.rnn.pad_sequence([one for one, _ in alone])
    want_last = tuple(torch.stack(column, 1) for column in zip(*(parts(end) for _, end in alone), strict=True))

    assert tuple(ends) == lengths
    assert_same((output, last), (want, want_last))
    torch.testing.assert_close(found(packed_output, last), found(want, want_last), **FLOAT64)


@every_layer
def test_packed_output_keeps_the_order_of_the_packed_input(kind):
    packed = pack_padded_sequence(data(), torch.tensor([2, 6, 1, 6]), enforce_sorted=False)
    output, _ = make(kind)(packed)
    for mine, given in zip(output[1:], packed[1:], strict=True):
        assert torch.equal(mine, given)


@every_layer_and_net
def test_state_given_changes_what_follows_and_gets_a_gradient(kind, net):
    layer, input = make(kind, **net), data()
    state = mapped(lambda part: part.requires_grad_(), random_state(layer, input))
    output, last = layer(input, state)
    assert not torch.allclose(output, layer(input)[0])
    for gradient in torch.autograd.grad(loss(output, last), parts(state)):
        assert (gradient != 0).all()


@every_layer
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cut", [1, 3, TIME - 1])
def test_carrying_the_state_over_a_cut_is_one_run(kind, layers, cut):
    layer, input = make(kind, num_layers=layers), data().requires_grad_()
    found = gradients(layer, input)
    start, state = layer(input[:cut])
    end, last = layer(input[cut:], state)
    pieces, whole = (torch.cat((start, end)), last), layer(input)
    assert_same(pieces, whole)
    torch.testing.assert_close(found(*pieces), found(*whole), **FLOAT64)


@every_layer_and_net
def test_state_dict_makes_an_equal_layer(kind, net):
    layer, other, input = make(kind, **net), make(kind, **net), data()
    assert not torch.equal(other(input)[0], layer(input)[0])
    other.load_state_dict(layer.state_dict())
    assert_equal(other(input), layer(input))


@every_layer_and_net
def test_safetensors_make_an_equal_layer(kind, net, tmp_path):
    layer, other, input = make(kind, **net), make(kind, **net), data()
    save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    other.load_state_dict(load_file(tmp_path / "layer.safetensors"))
    assert_equal(other(input), layer(input))


@every_layer
def test_deepcopy_is_equal_and_independent(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data()
    other = copy.deepcopy(layer)
    want = layer(input)
    assert_equal(other(input), want)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert_equal(layer(input), want)


@every_layer
def test_pickle_makes_an_equal_layer(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data()
    assert_equal(pickle.loads(pickle.dumps(layer))(input), layer(input))


@every_layer
def test_double_computes_in_double(kind):
    layer, input = make(kind, torch.float32), data(dtype=torch.float32)
    want = layer(input)
    output, state = layer.double()(input.double())
    assert output.dtype == torch.float64
    assert_same((output.float(), mapped(Tensor.float, state)), want, scaled(FLOAT32, want))


@every_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_conversion_converts_all_and_keeps_the_function(kind, dtype):
    layer, input = make(kind, torch.float32, **NETS["two-layers-bidirectional"]), data(dtype=torch.float32)
    want = layer(input)
    output, state = layer.to(dtype)(input.to(dtype))
    assert {tensor.dtype for tensor in layer.state_dict().values()} == {dtype}
    assert {output.dtype, *(part.dtype for part in parts(state))} == {dtype}
    tolerance = BFLOAT16 if dtype == torch.bfloat16 else FLOAT32
    assert_same((output.float(), mapped(Tensor.float, state)), want, scaled(tolerance, want))


@every_layer
def test_default_dtype_is_that_of_pytorch(kind):
    assert {parameter.dtype for parameter in LAYERS[kind](FEATURES, HIDDEN).parameters()} == {torch.float32}


@every_layer_and_net
def test_meta_layer_holds_no_data_and_is_filled_from_a_state_dict(kind, net):
    layer, input = make(kind, **net), data()
    empty = make(kind, device="meta", **net)
    assert {tensor.device.type for tensor in empty.state_dict().values()} == {"meta"}
    empty.to_empty(device="cpu").load_state_dict(layer.state_dict())
    assert_equal(empty(input), layer(input))


@every_layer
def test_default_device_holds_all_of_a_layer(kind):
    with torch.device("meta"):
        layer = make(kind)
    assert {tensor.device.type for tensor in layer.state_dict().values()} == {"meta"}


@every_layer
def test_meta_layer_has_a_repr(kind):
    assert kind in repr(make(kind, device="meta"))


@every_layer
def test_fake_tensors_give_shapes_and_a_repr(kind):
    """Tools that estimate the memory of a training build the model under this mode."""
    options = {"trainable": ("dt", "gamma", "epsilon")} if kind == "CoRNN" else {}
    with FakeTensorMode():
        layer = make(kind, **options)
        output, _ = layer(data())
        output.sum().backward()
        assert kind in repr(layer)
    assert output.shape == (TIME, BATCH, HIDDEN)
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_fake_tensors_take_timespans_and_lengths():
    with FakeTensorMode():
        layer, lengths = make("CoRNN"), torch.tensor([6, 5, 4, 1])
        y, _ = layer.last_state(data(), timespans=torch.rand(TIME).double(), lengths=lengths)
    assert y.shape == (1, BATCH, HIDDEN)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # PyTorch's own
def test_linearised_layer_takes_timespans_and_lengths():
    """`torch.func.linearize` traces the layer, as `make_fx` does."""
    layer, spans, lengths = make("CoRNN"), torch.rand(TIME).double(), torch.tensor([6, 5, 4, 1])

    def last(input):
        return layer.last_state(input, timespans=spans, lengths=lengths)[0]

    input, tangent = data(), data()
    output, derivative = torch.func.linearize(last, input)
    want, want_derivative = torch.func.jvp(last, (input,), (tangent,))
    torch.testing.assert_close((output, derivative(tangent)), (want, want_derivative), **FLOAT64)


@every_layer_and_net
def test_meta_layer_gives_shapes(kind, net):
    output, state = make(kind, device="meta", **net)(torch.empty(TIME, BATCH, FEATURES, device="meta").double())
    want, want_state = make(kind, **net)(data())
    assert output.shape == want.shape
    assert [part.shape for part in parts(state)] == [part.shape for part in parts(want_state)]


@every_layer
@pytest.mark.parametrize("input_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_stays_near_float32(kind, input_dtype):
    if (kind, input_dtype) == ("LSTM", torch.float32) and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("oneDNN has no nn.LSTM in bfloat16 for this processor")
    layer, input = make(kind, torch.float32, num_layers=2), data(dtype=torch.float32)
    want, want_state = layer(input)
    with torch.autocast("cpu", torch.bfloat16):
        try:
            output, state = layer(input.to(input_dtype))
        except RuntimeError as error:
            if type(layer) is nn.LSTM and "primitive descriptor" in str(error):
                pytest.skip("PyTorch has no LSTM in bfloat16 for this processor")
            raise
    loss(output, state).backward()
    assert_same((output.float(), mapped(Tensor.float, state)), (want, want_state), BFLOAT16)
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@every_layer
def test_many_gradients_at_once(kind):
    layer, input = make(kind), data()
    found = torch.autograd.functional.jacobian(lambda x: layer(x)[0], input, vectorize=True)
    torch.testing.assert_close(found, torch.autograd.functional.jacobian(lambda x: layer(x)[0], input), **FLOAT64)


@our_layers
def test_lengths_that_cannot_be_are_refused(kind):
    layer, input = make(kind), data()
    for lengths, words in (([TIME] * BATCH + [1], "shape"), ([TIME + 1] * BATCH, "between"), ([-1] * BATCH, "between")):
        with pytest.raises(ValueError, match=f"lengths .*{words}"):
            layer.last_state(input, lengths=torch.tensor(lengths))
    packed = pack_padded_sequence(input, torch.tensor([TIME] * BATCH))
    with pytest.raises(ValueError, match="already contains its lengths"):
        layer.last_state(packed, lengths=torch.tensor([1] * BATCH))


@our_layers
def test_vmap_over_empty_batches(kind):
    layer = make(kind, **NETS["two-layers-bidirectional"])
    assert torch.vmap(lambda x: layer(x)[0])(data(7, TIME, 0, FEATURES)).shape == (7, TIME, 0, 2 * HIDDEN)


# All of ours are traced through the same operator. Of those that differ in their weights and parameters only, most wait
# for the slow tests: a compilation takes seconds.
TRACED = ("CoRNN", "LipschitzRNN", "CustomRNN")


traced_layers = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in TRACED else pytest.mark.slow) for kind in OURS]
)


@pytest.mark.usefixtures("compiler")
@traced_layers
def test_compiled_layer_computes_the_same(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data().requires_grad_()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    found = gradients(layer, input)
    got, want = compiled(input), layer(input)
    assert_same(got, want)
    torch.testing.assert_close(found(*got), found(*want), **FLOAT64)


@pytest.mark.usefixtures("compiler")
def test_compiled_layer_takes_timespans():
    layer, input, spans = make("CoRNN"), data(), torch.rand(TIME, BATCH, dtype=torch.float64)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert_same(compiled(input, timespans=spans), layer(input, timespans=spans))


@pytest.mark.usefixtures("compiler")
@traced_layers
def test_compiled_layer_takes_any_length_and_batch(kind):
    layer = make(kind)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for time, batch in ((4, 2), (7, 5), (9, 3)):
        input = data(time, batch, FEATURES)
        assert_same(compiled(input), layer(input))


@pytest.mark.usefixtures("compiler")
@traced_layers
def test_exported_layer_takes_any_length_and_batch(kind):
    layer = make(kind, **NETS["two-layers-bidirectional"])
    free = torch.export.Dim.DYNAMIC
    program = torch.export.export(layer, (data(),), dynamic_shapes=({0: free, 1: free},))
    input = data(TIME + 3, BATCH + 1, FEATURES)
    assert_same(program.module()(input), layer(input))


@every_layer
def test_dropout_acts_in_training_only(kind):
    layer, input = make(kind, num_layers=2, dropout=0.5), data()
    plain = make(kind, num_layers=2)
    plain.load_state_dict(layer.state_dict())
    assert not torch.equal(layer(input)[0], layer(input)[0])
    assert_equal(layer.eval()(input), plain(input))


@every_layer
def test_dropout_acts_between_layers_only(kind):
    """With all dropped, the first layer sees its input, the second zeros, and nothing is lost after it."""
    layer, input = make(kind, num_layers=2, dropout=1.0), data()
    first = random_state(layer, input)
    output, state = layer(input, first)
    elsewhere, _ = layer(data(), first)
    _, undisturbed = layer.eval()(input, first)
    for part, want in zip(parts(state), parts(undisturbed), strict=True):
        torch.testing.assert_close(part[0], want[0], **FLOAT64)
    assert (output != 0).any(-1).all()
    assert torch.equal(output, elsewhere)


@every_layer
def test_dropout_of_a_single_layer_warns(kind):
    with pytest.warns(UserWarning, match="dropout"):
        make(kind, dropout=0.5)


@every_layer
def test_gradient_of_the_input_is_there_when_asked_for(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data().requires_grad_()
    layer.requires_grad_(False)
    loss(*layer(input)).backward()
    assert (input.grad != 0).all()
    assert all(parameter.grad is None for parameter in layer.parameters())


@every_layer
def test_nothing_to_train_makes_no_graph(kind):
    layer = make(kind).requires_grad_(False)
    output, state = layer(data())
    assert not any(tensor.requires_grad for tensor in (output, *parts(state)))


@every_layer
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_there_is_no_graph_and_the_same_result(kind, mode):
    layer, input = make(kind, num_layers=2), data().requires_grad_()
    want = layer(input)
    with mode():
        output, state = layer(input)
    assert not any(tensor.requires_grad for tensor in (output, *parts(state)))
    assert_same((output, state), want)


@every_layer_and_net
def test_batch_of_none_gives_nothing(kind, net):
    layer, input = make(kind, **net), data(TIME, 0, FEATURES).requires_grad_()
    output, state = layer(input)
    loss(output, state).backward()
    whole, whole_state = layer(data())
    assert output.shape == (TIME, 0, whole.shape[-1])
    assert [part.shape for part in parts(state)] == [(len(part), 0, HIDDEN) for part in parts(whole_state)]
    assert input.grad.shape == input.shape
    assert all((parameter.grad == 0).all() for parameter in layer.parameters())


NON_CONTIGUOUS = {
    "transposed": lambda: data(FEATURES, BATCH, TIME).permute(2, 1, 0),
    "strided": lambda: data(2 * TIME, BATCH, 2 * FEATURES)[::2, :, ::2],
    "expanded": lambda: data(TIME, 1, FEATURES).expand(TIME, BATCH, FEATURES),
    "flipped-batch": lambda: data(BATCH, TIME, FEATURES).transpose(0, 1),
}


@every_layer_and_net
@pytest.mark.parametrize("layout", NON_CONTIGUOUS)
def test_layout_of_the_input_does_not_matter(kind, net, layout):
    layer, input = make(kind, **net), NON_CONTIGUOUS[layout]().requires_grad_()
    assert not input.is_contiguous()
    plain = input.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    got, want = layer(input), layer(plain)
    assert_same(got, want)
    torch.testing.assert_close(gradients(layer, input)(*got), gradients(layer, plain)(*want), **FLOAT64)


@every_layer
def test_input_and_state_are_left_as_they_were(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data()
    state = random_state(layer, input)
    before = [tensor.clone() for tensor in (input, *parts(state))]
    layer(input, state)
    for tensor, was in zip((input, *parts(state)), before, strict=True):
        assert torch.equal(tensor, was)


@every_layer
def test_wrong_number_of_features_is_refused(kind):
    with refused(kind, r"input has 4 features, this layer expects 3 \(input_size=3\)"):
        make(kind)(data(TIME, BATCH, 4))


@every_layer
def test_wrong_number_of_features_in_a_packed_sequence_is_refused(kind):
    packed = pack_padded_sequence(data(TIME, BATCH, 4), torch.tensor([6, 5, 2, 1]))
    with refused(kind, r"input has 4 features, this layer expects 3"):
        make(kind)(packed)


@every_layer
@pytest.mark.parametrize("shape", [(FEATURES,), (1, TIME, BATCH, FEATURES)])
def test_wrong_rank_is_refused(kind, shape):
    with refused(kind, rf"input has {len(shape)} dimensions?, expected \(time, batch, features\)"):
        make(kind)(data(*shape))


@every_layer
@pytest.mark.parametrize("shape", [(0, BATCH, FEATURES), (0, FEATURES)], ids=["batched", "unbatched"])
def test_sequence_without_steps_is_refused(kind, shape):
    with refused(kind, "input has no time steps"):
        make(kind)(data(*shape))


@every_layer
@pytest.mark.parametrize("shape", [(1, BATCH + 1, HIDDEN), (2, BATCH, HIDDEN), (1, BATCH, HIDDEN + 1), (BATCH, HIDDEN)])
def test_state_of_the_wrong_shape_is_refused(kind, shape):
    layer, input = make(kind), data()
    state = mapped(lambda part: data(*shape), random_state(layer, input))
    with refused(kind, rf"state \w+ has shape \({', '.join(map(str, shape))}\), expected \(1, 4, 5\)"):
        layer(input, state)


@every_layer
def test_batched_state_for_an_unbatched_input_is_refused(kind):
    layer = make(kind)
    state = mapped(lambda part: part.unsqueeze(1), random_state(layer, data(TIME, FEATURES)))
    with refused(kind, r"state \w+ has shape \(1, 1, 5\), expected \(1, 5\)"):
        layer(data(TIME, FEATURES), state)


@every_layer
def test_input_of_another_dtype_is_refused(kind):
    with refused(kind, r"input is torch.float64, this layer's weights are torch.float32: convert"):
        make(kind, torch.float32)(data())


@every_layer
def test_state_of_another_dtype_is_refused(kind):
    layer, input = make(kind, torch.float32), data(dtype=torch.float32)
    state = mapped(Tensor.double, random_state(layer, input))
    with refused(kind, r"state \w+ is torch.float64, the input torch.float32: convert"):
        layer(input, state)


@every_layer
@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan"), "0.5", True])
def test_dropout_that_is_no_probability_is_refused(kind, dropout, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with refused(kind, "dropout must be a probability between 0 and 1"):
        make(kind, num_layers=2, dropout=dropout)


@every_layer
@pytest.mark.parametrize("name", ["hidden_size", "num_layers"])
def test_size_of_zero_is_refused(kind, name):
    sizes = {"input_size": FEATURES, "hidden_size": HIDDEN, name: 0}
    with refused(kind, f"{name} must be a positive integer, got 0"):
        LAYERS[kind](**sizes)


@every_layer_and_net
def test_functional_call_uses_the_weights_it_is_given(kind, net):
    layer, other, input = make(kind, **net), make(kind, **net), data()
    weights = {name: parameter.detach().requires_grad_() for name, parameter in other.named_parameters()}
    buffers = dict(other.named_buffers())
    got, want = torch.func.functional_call(layer, (weights, buffers), (input,)), other(input)
    assert_same(got, want)
    found = torch.autograd.grad(loss(*got), list(weights.values()))
    torch.testing.assert_close(found, gradients(other)(*want), **FLOAT64)


@every_layer_and_net
def test_functional_gradient_is_that_of_autograd(kind, net):
    layer, input = make(kind, **net), data()
    weights = dict(layer.named_parameters())
    found = torch.func.grad(lambda w: loss(*torch.func.functional_call(layer, w, (input,))))(weights)
    torch.testing.assert_close(tuple(found.values()), gradients(layer)(*layer(input)), **FLOAT64)


def dual_numbers(function, input, direction):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(input, direction))).tangent


FORWARD_MODES = {
    "jvp": lambda function, input, direction: torch.func.jvp(function, (input,), (direction,))[1],
    "dual-numbers": dual_numbers,
}


@every_layer
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("mode", FORWARD_MODES.values(), ids=FORWARD_MODES)
def test_forward_mode_is_right_or_refused(kind, mode, frozen):
    """A derivative that is silently zero would be worse than none."""
    layer, input, direction = make(kind).requires_grad_(not frozen), data(), data()
    try:
        found = mode(lambda x: layer(x)[0], input, direction)
    except (NotImplementedError, RuntimeError):
        return
    step = 1e-5
    want = (layer(input + step * direction)[0] - layer(input - step * direction)[0]) / (2 * step)
    torch.testing.assert_close(found, want, **FINITE_DIFFERENCES)


@our_layers_and_nets
def test_stacked_models_each_compute_what_they_compute_alone(kind, net):
    models, input = [make(kind, **net) for _ in range(3)], data()
    weights, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    output, state = torch.vmap(lambda w, b: torch.func.functional_call(base, (w, b), (input,)))(weights, buffers)
    found = dict(zip(weights, torch.autograd.grad(loss(output, state), list(weights.values())), strict=True))
    for number, model in enumerate(models):
        alone = model(input)
        assert_same((output[number], mapped(lambda part, number=number: part[number], state)), alone)
        want = gradients(model)(*alone)
        torch.testing.assert_close(tuple(found[name][number] for name in found), want, **FLOAT64)


@our_layers
def test_stacked_models_take_each_its_own_input(kind):
    models, inputs = [make(kind) for _ in range(3)], data(3, TIME, BATCH, FEATURES)
    stacked = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    output, state = torch.vmap(lambda w, b, x: torch.func.functional_call(base, (w, b), (x,)))(*stacked, inputs)
    for number, model in enumerate(models):
        found = (output[number], mapped(lambda part, number=number: part[number], state))
        assert_same(found, model(inputs[number]))


@every_layer_and_net
def test_parameters_are_all_trained_and_nothing_else_is(kind, net):
    layer = make(kind, **net)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    loss(*layer(data())).backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()
    changed = {name for name, tensor in layer.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name, _ in layer.named_parameters()}
    assert not any(buffer.requires_grad for buffer in layer.buffers())


@every_layer
def test_two_runs_give_equal_results(kind):
    layer, input = make(kind, **NETS["two-layers-bidirectional"]), data()
    assert_equal(layer(input), layer(input))


@every_layer_and_net
def test_a_state_can_be_changed_in_place(kind, net):
    layer = LAYERS[kind](FEATURES, HIDDEN, **net)
    _, state = layer(torch.randn(TIME, BATCH, FEATURES))
    for part in (state,) if isinstance(state, Tensor) else state:
        part *= torch.rand(BATCH, 1)
        part[:, 0] = 0
        part.sum().backward(retain_graph=True)
        part.detach_()


@our_layers
@pytest.mark.parametrize("lengths", [[1, 2, 3, 4], torch.tensor([1.0, 2.5, 3.0, 4.0]), torch.ones(BATCH, dtype=bool)])
def test_lengths_that_are_no_whole_numbers_are_refused(kind, lengths):
    with pytest.raises(TypeError, match="lengths must be an integer tensor"):
        LAYERS[kind](FEATURES, HIDDEN).last_state(torch.randn(TIME, BATCH, FEATURES), lengths=lengths)


@our_layers
@pytest.mark.parametrize(("given", "words"), [(3, "state is of type int"), ({"y": None}, "state is of type dict")])
def test_state_that_is_no_tuple_is_refused(kind, given, words):
    layer = make(kind)
    for input in (data(), data(TIME, FEATURES)):
        with pytest.raises(TypeError, match=f"{words}, expected a tuple of tensors"):
            layer(input, given)


@our_layers
@pytest.mark.parametrize("convert", [lambda part: part.numpy(), lambda part: None], ids=["numpy", "none"])
def test_state_of_anything_but_tensors_is_refused(kind, convert):
    layer = make(kind)
    state = random_state(layer, data())
    parts = (state,) if isinstance(state, Tensor) else state
    with pytest.raises(TypeError, match=r"state \w+ is of type \w+, expected a tensor: use torch.as_tensor"):
        layer(data(), tuple(map(convert, parts)))


@our_layers
def test_autocast_converts_all_of_a_state_and_checks_its_shape(kind):
    layer, input = make(kind, dtype=torch.float32), data(dtype=torch.float32)
    state = mapped(torch.Tensor.bfloat16, random_state(layer, input))
    parts = (state,) if isinstance(state, Tensor) else state
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(layer(input, state), layer(input, mapped(torch.Tensor.float, state)))
        with pytest.raises(ValueError, match=r"state \w+ has shape \(1, 4, 4\), expected"):
            layer(input, (*parts[:-1], parts[-1][..., :-1]))


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_complex_numbers_are_refused(monkeypatch):
    """The kernels and the derivatives of an update are those of real numbers."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for layer in (CoRNN(FEATURES, HIDDEN), baselines.TanhRNN(FEATURES, HIDDEN, backend="portable")):
        with pytest.raises(ValueError, match=r"real numbers, not with torch.complex64: convert layer and input"):
            layer.to(torch.complex64)(torch.randn(TIME, BATCH, FEATURES, dtype=torch.complex64))


@pytest.mark.parametrize("timespans", [2.0, [1.0] * TIME])
def test_timespans_that_are_no_tensor_are_refused(timespans):
    with pytest.raises(TypeError, match="timespans must be a tensor with one number per step"):
        CoRNN(FEATURES, HIDDEN)(torch.randn(TIME, BATCH, FEATURES), timespans=timespans)
