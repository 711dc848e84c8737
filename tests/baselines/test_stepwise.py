"""The contract of `nn.LSTM` for the rivals of several products a step, and what all of them have in common."""

import copy
import pickle

import pytest
import torch
from tolerances import BFLOAT16, FLOAT32, FLOAT64
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cornn._random import generator
from cornn.baselines import LAYERS
from cornn.baselines.layer import Cell
from cornn.models import SequenceModel

TIME, BATCH, FEATURES, HIDDEN = 5, 3, 2, 4
OURS = tuple(name for name, layer in LAYERS.items() if not issubclass(layer.kind, Cell))
TIMED = ("lem", "linoss", "d-linoss")
NETS = {"one-layer": {}, "two-layers-bidirectional": {"num_layers": 2, "bidirectional": True}}

every_layer = pytest.mark.parametrize("name", OURS)
every_net = pytest.mark.parametrize("net", NETS.values(), ids=NETS)


def make(name, seed=0, dtype=torch.float64, **options):
    layer = LAYERS[name](FEATURES, HIDDEN, dtype=dtype, **options)
    layer.reset_parameters(generator(seed, "weights"))
    return layer


def data(*shape, purpose="input"):
    return torch.randn(*(shape or (TIME, BATCH, FEATURES)), generator=generator(0, purpose), dtype=torch.float64)


def parts(state):
    return (state,) if isinstance(state, Tensor) else tuple(state)


def some_state(layer, batch=BATCH):
    """The state after a few steps of something else; of skipping layers, one that a sequence can have."""
    with torch.no_grad():
        return layer(data(TIME, batch, FEATURES, purpose="before"))[1]


def loss(output, state):
    return output.square().sum() + sum(part.square().sum() for part in parts(state))


def gradients(layer, output, state):
    # A learned start has no part in a run from a given state.
    return torch.autograd.grad(loss(output, state), list(layer.parameters()), materialize_grads=True)


def assert_same(got, want):
    torch.testing.assert_close(got[0], want[0], **FLOAT64)
    torch.testing.assert_close(parts(got[1]), parts(want[1]), **FLOAT64)


@every_layer
def test_parametrizations_are_not_computed_at_every_step(name):
    """A random one would give every step other weights."""
    layer, computed = make(name), []

    class Identity(nn.Module):
        def forward(self, weight):
            computed.append(weight)
            return weight

    for parameter, _ in list(layer.cell().named_parameters()):
        nn.utils.parametrize.register_parametrization(layer.cell(), parameter, Identity())
    counts = []
    for steps in (2, TIME):
        computed.clear()
        layer(data(steps, BATCH, FEATURES))
        counts.append(len(computed))
    assert counts[0] == counts[1]


@every_layer
def test_positional_arguments_and_bias_are_those_of_lstm(name):
    layer = LAYERS[name](FEATURES, HIDDEN, 2, False, True, 0.25, True)
    assert (layer.num_layers, layer.bias, layer.batch_first) == (2, False, True)
    assert (layer.dropout, layer.bidirectional) == (0.25, True)
    assert not any("bias" in parameter for parameter, _ in layer.named_parameters())
    output, _ = layer(torch.randn(BATCH, TIME, FEATURES, generator=generator(0, "input")))
    assert output.shape == (BATCH, TIME, 2 * HIDDEN)


@every_layer
@every_net
def test_shapes_and_the_end_of_the_output(name, net):
    layer = make(name, **net)
    output, state = layer(data())
    cells = len(layer.cells)
    assert output.shape == (TIME, BATCH, HIDDEN * (2 if layer.bidirectional else 1))
    assert all(part.shape == (cells, BATCH, HIDDEN) for part in parts(state))
    forwards = -2 if layer.bidirectional else -1
    assert torch.equal(output[-1, :, :HIDDEN], parts(state)[0][forwards])


@every_layer
def test_batch_first_is_a_transpose_and_unbatched_a_batch_of_one(name):
    layer, other = make(name), make(name, batch_first=True)
    output, state = other(data().transpose(0, 1))
    assert_same((output.transpose(0, 1), state), layer(data()))
    alone, last = layer(data()[:, 0])
    assert_same((alone.unsqueeze(1), tuple(part.unsqueeze(1) for part in parts(last))), layer(data()[:, :1]))


@every_layer
@every_net
@pytest.mark.parametrize("given", [False, True], ids=["no-state", "state"])
def test_packed_sequences_are_each_run_alone(name, net, given):
    layer, lengths = make(name, **net), (2, 5, 1)
    state = some_state(layer) if given else None
    packed = pack_padded_sequence(data(), torch.tensor(lengths), enforce_sorted=False)
    packed_output, last = layer(packed, state)
    output, ends = pad_packed_sequence(packed_output)
    alone = []
    for column, length in enumerate(lengths):
        first = None if state is None else tuple(part[:, column] for part in parts(state))
        alone.append(layer(data()[:length, column], first))
    want = nn.utils.rnn.pad_sequence([one for one, _ in alone])
    want_last = tuple(torch.stack(column, 1) for column in zip(*(parts(end) for _, end in alone), strict=True))
    assert tuple(ends) == lengths
    assert_same((output, last), (want, want_last))
    torch.testing.assert_close(gradients(layer, output, last), gradients(layer, want, want_last), **FLOAT64)
    from_lengths = layer.last_state(data(), state, lengths=torch.tensor(lengths))
    torch.testing.assert_close(parts(from_lengths), parts(last), **FLOAT64)


@every_layer
@pytest.mark.parametrize("cut", [1, 3])
def test_carrying_the_state_over_a_cut_is_one_run(name, cut):
    layer = make(name, num_layers=2)
    start, state = layer(data()[:cut])
    end, last = layer(data()[cut:], state)
    pieces, whole = (torch.cat((start, end)), last), layer(data())
    assert_same(pieces, whole)
    torch.testing.assert_close(gradients(layer, *pieces), gradients(layer, *whole), **FLOAT64)


@every_layer
def test_state_given_changes_what_follows(name):
    layer = make(name)
    assert not torch.allclose(layer(data(), some_state(layer))[0], layer(data())[0])


@every_layer
def test_last_state_is_that_of_forward_with_its_gradients(name):
    layer = make(name)
    _, want = layer(data())
    got = layer.last_state(data())
    torch.testing.assert_close(parts(got), parts(want), **FLOAT64)
    empty = data()[:0]
    torch.testing.assert_close(gradients(layer, empty, got), gradients(layer, empty, want), **FLOAT64)


@every_layer
def test_checkpoints_change_nothing(name):
    layer, other = make(name), make(name, checkpoint_every=2)
    got, want = other(data()), layer(data())
    assert_same(got, want)
    torch.testing.assert_close(gradients(other, *got), gradients(layer, *want), **FLOAT64)
    lengths = torch.tensor([1, 5, 2])
    got, want = (parts(one.last_state(data(), lengths=lengths)) for one in (other, layer))
    torch.testing.assert_close(got, want, **FLOAT64)


@every_layer
@every_net
def test_state_dict_deepcopy_and_pickle_make_equal_layers(name, net):
    layer, other = make(name, **net), make(name, seed=1, **net)
    want = layer(data())
    assert not torch.equal(other(data())[0], want[0])
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(same(data())[0], want[0])


@every_layer
def test_meta_layer_is_filled_from_a_state_dict(name):
    layer, empty = make(name), LAYERS[name](FEATURES, HIDDEN, device="meta", dtype=torch.float64)
    assert {tensor.device.type for tensor in empty.state_dict().values()} == {"meta"}
    empty.to_empty(device="cpu").load_state_dict(layer.state_dict())
    assert torch.equal(empty(data())[0], layer(data())[0])


@every_layer
def test_float32_and_autocast_stay_near_float64(name):
    layer = make(name)
    want = layer(data())[0].float()
    single = copy.deepcopy(layer).float()
    torch.testing.assert_close(single(data().float())[0], want, **FLOAT32)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(single(data().float())[0], want, **FLOAT32)


@pytest.mark.parametrize("name", [name for name in OURS if not name.startswith("skip")])
def test_gradients_are_those_of_finite_differences(name):
    """Those of a skipping layer are not, on purpose: see test_skip.py."""
    layer = make(name).requires_grad_(False)
    state = parts(some_state(layer))
    names = [key for key, _ in layer.named_parameters()]

    def output(input, *rest):
        weights = dict(zip(names, rest[len(state) :], strict=True))
        return torch.func.functional_call(layer, weights, (input, rest[: len(state)]))[0]

    variables = (data(), *state, *layer.parameters())
    assert torch.autograd.gradcheck(output, [v.detach().clone().requires_grad_() for v in variables], fast_mode=True)


@every_layer
def test_timespans_of_one_change_nothing_and_others_are_refused(name):
    layer = make(name)
    if name in TIMED:
        assert_same(layer(data(), timespans=torch.ones(TIME)), layer(data()))
        halved, _ = layer(data(), timespans=torch.ones(TIME) / 2)
        assert not torch.allclose(halved, layer(data())[0])
    else:
        with pytest.raises(ValueError, match="no time step"):
            layer(data(), timespans=torch.ones(TIME))


@every_layer
def test_kernels_and_roundings_there_are_not_are_refused(name):
    with pytest.raises(RuntimeError, match="needs a network with one product per step"):
        make(name, backend="c")(data())
    with pytest.raises(RuntimeError, match="needs a network with one product per step"):
        make(name, precision="bf16")(data())


@every_layer
def test_same_seed_same_weights_and_model(name):
    one, other = make(name, seed=3), make(name, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    model = SequenceModel(one, 2)
    assert model.double()(data(), torch.tensor([5, 1, 3])).shape == (BATCH, 2)


@every_layer
def test_bfloat16_stays_near_float32_with_the_same_weights(name):
    """Against weights that are rounded, too: a phase that adds up over the steps is another one with other weights."""
    low = make(name, dtype=torch.float32, **NETS["two-layers-bidirectional"]).to(torch.bfloat16)
    single = copy.deepcopy(low).float()
    input = data().to(torch.bfloat16)
    output, state = low(input)
    want, want_state = single(input.float())
    assert {output.dtype, *(part.dtype for part in parts(state))} == {torch.bfloat16}
    for got, expected in zip((output, *parts(state)), (want, *parts(want_state)), strict=True):
        size = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(got.float() / size, expected / size, **BFLOAT16)


@every_layer
def test_dropout_of_everything_leaves_the_state_of_the_layer_above(name):
    """The first layer sees its input, the second zeros, and nothing is lost after it."""
    layer = make(name, num_layers=2, dropout=1.0)
    first = some_state(make(name, num_layers=2))
    output, state = layer(data(), first)
    elsewhere, _ = layer(data(purpose="elsewhere"), first)
    _, undisturbed = layer.eval()(data(), first)
    for part, want in zip(parts(state), parts(undisturbed), strict=True):
        torch.testing.assert_close(part[0], want[0], **FLOAT64)
    assert (output != 0).any(-1).all()
    assert torch.equal(output, elsewhere)


@every_layer
@every_net
def test_batch_of_none_gives_nothing(name, net):
    layer, input = make(name, **net), data(TIME, 0, FEATURES).requires_grad_()
    output, state = layer(input)
    loss(output, state).backward()
    assert output.shape[:2] == (TIME, 0)
    assert all(part.shape[1] == 0 for part in parts(state))
    assert input.grad.shape == input.shape
    assert all(parameter.grad is None or (parameter.grad == 0).all() for parameter in layer.parameters())


@every_layer
def test_models_side_by_side_compute_what_each_computes_alone(name):
    models, input = [make(name, seed=seed) for seed in range(2)], data()
    weights, buffers = torch.func.stack_module_state(models)

    def call(weights, buffers):
        return torch.func.functional_call(models[0], (weights, buffers), (input,))[0]

    for one, model in zip(torch.vmap(call)(weights, buffers), models, strict=True):
        torch.testing.assert_close(one, model(input)[0], **FLOAT64)
