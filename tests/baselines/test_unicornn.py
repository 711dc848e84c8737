"""UnICORNN against its equations, the backward pass that makes its states again, its memory and its guards."""

import pytest
import torch
from tolerances import FLOAT64
from torch import nn

from cornn._random import generator
from cornn.baselines import UnICORNN
from cornn.baselines.unicornn import PIECE
from cornn.models import count_parameters

TIME = 2 * PIECE + 3


def network(**options):
    layer = UnICORNN(3, 4, dt=0.3, alpha=2.0, dtype=torch.float64, **options)
    layer.reset_parameters(generator(0, "weights"))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3
    return layer


def data(steps=TIME, purpose="input"):
    return torch.randn(steps, 2, 3, generator=generator(0, purpose), dtype=torch.float64)


def test_layer_is_its_equations_step_by_step():
    layer, input = network(), data()
    cell = layer.cell()
    s, y = 0.3 * torch.sigmoid(cell.c), torch.zeros(2, 4, dtype=torch.float64)
    z = y
    output, last = layer(input)
    for u, found in zip(input, output, strict=True):
        z = z - s * (torch.tanh(cell.weight_hh * y + u @ cell.weight_ih.T + cell.bias) + 2.0 * y)
        y = y + s * z
        torch.testing.assert_close(found, y, **FLOAT64)
    torch.testing.assert_close((last[0][0], last[1][0]), (y, z), **FLOAT64)


@pytest.mark.parametrize("every", [True, False], ids=["output", "last-state"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("uneven", [True, False], ids=["uneven", "even"])
def test_gradients_are_those_of_autograd_through_the_loop(every, bias, uneven):
    layer, reference = network(bias=bias), network(bias=bias, backend="reference")
    lengths = torch.tensor([TIME, PIECE + 1]) if not every else None

    def found(layer):
        input = data().requires_grad_()
        state = torch.randn(2, 1, 2, 4, generator=generator(0, "state"), dtype=torch.float64).requires_grad_()
        spans = (0.5 + torch.rand(TIME, 2, generator=generator(0, "spans"), dtype=torch.float64)).requires_grad_()
        options = {"timespans": spans} if uneven else {}
        if every:
            output, (y, z) = layer(input, tuple(state), **options)
        else:
            y, z = layer.last_state(input, tuple(state), lengths=lengths, **options)
            output = y
        value = (output * output.detach().cos()).sum() + (y * z).sum() + z.sum()
        variables = [*layer.parameters(), input, state, *options.values()]
        return value, *torch.autograd.grad(value, variables)

    for got, want in zip(found(layer), found(reference), strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)


@pytest.mark.parametrize("every", [True, False], ids=["output", "last-state"])
def test_memory_for_training_does_not_grow_with_time_beyond_input_and_output(every):
    """Bytes that autograd keeps, less the input, the output and the parameters."""

    def kept(steps, **options):
        layer, input, saved = network(**options), data(steps).requires_grad_(), {}

        def pack(tensor):
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = layer(input)[0] if every else layer.last_state(input)[0]
        for own in (input, output, *layer.parameters()):
            saved.pop(own.untyped_storage().data_ptr(), None)
        return sum(saved.values())

    assert kept(20) == kept(20 * PIECE)
    assert kept(40, backend="reference") > 1.5 * kept(20, backend="reference")


def test_states_computed_backwards_over_many_steps_are_those_that_were():
    layer, reference = network(), network(backend="reference")
    input = data(2000)
    got, want = (
        torch.autograd.grad(sum(part.square().sum() for part in one.last_state(input)), list(one.parameters()))
        for one in (layer, reference)
    )
    torch.testing.assert_close(got, want, **FLOAT64)


@pytest.mark.parametrize("coupling", [-100.0, 0.0, 1e6])
def test_oscillators_do_not_diverge_whatever_the_coupling(coupling):
    layer = UnICORNN(3, 4, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    nn.init.constant_(layer.cell().weight_hh, coupling)
    with torch.no_grad():
        output, _ = layer(data(5000))
    w, s = layer.cell().constants()
    assert ((w + 1.0 >= 0) & (s**2 * (w + 1.0) < 4)).all()
    assert output[-2000:].abs().max() <= 2 * output[:2000].abs().max() + 1


def test_constants_that_diverge_are_refused():
    with pytest.raises(ValueError, match=r"diverges.*dt below 0.986"):
        UnICORNN(1, 2, dt=1.0, alpha=2.7)
    with pytest.raises(ValueError, match="dt must be above 0"):
        UnICORNN(1, 2, dt=0.0)


def test_size():
    d, m, layers = 1, 128, 3
    want = m * d + 3 * m + (layers - 1) * (m * m + 3 * m)
    assert count_parameters(UnICORNN(d, m, layers)) == want


@pytest.mark.parametrize("every", [True, False], ids=["output", "last-state"])
def test_second_derivatives_are_those_of_finite_differences(every):
    layer, state = network(), torch.zeros(2, 1, 2, 4, dtype=torch.float64)

    def result(input, weight):
        weights = {"cells.l0.weight_ih": weight}
        output, last = torch.func.functional_call(layer, weights, (input, tuple(state)))
        return output if every else last[1]

    variables = (data(3), layer.cell().weight_ih.detach().clone())
    assert torch.autograd.gradgradcheck(result, [v.requires_grad_() for v in variables], fast_mode=True)


@pytest.mark.parametrize("options", [{}, {"checkpoint_every": 3}], ids=str)
def test_a_carried_state_is_not_counted_twice_where_gradients_are_recorded(options):
    layer, reference = network(**options), network(backend="reference")
    reference.load_state_dict(layer.state_dict())
    input = data(10)

    def found(layer):
        _, state = layer(input[:4])
        output, _ = layer(input[4:], state)
        first = torch.autograd.grad(output.square().sum(), layer.parameters(), create_graph=True)
        return *first, *torch.autograd.grad(sum(x.square().sum() for x in first), layer.parameters())

    torch.testing.assert_close(found(layer), found(reference), **FLOAT64)


def test_many_gradients_at_once_and_forward_mode():
    layer, input = network(), data(5)
    found = torch.autograd.functional.jacobian(lambda x: layer(x)[0], input, vectorize=True)
    torch.testing.assert_close(found, torch.autograd.functional.jacobian(lambda x: layer(x)[0], input), **FLOAT64)
    with torch.autograd.forward_ad.dual_level():
        output, _ = layer(torch.autograd.forward_ad.make_dual(input, torch.ones_like(input)))
        tangent = torch.autograd.forward_ad.unpack_dual(output).tangent
    torch.testing.assert_close(tangent, found.sum((3, 4, 5)), **FLOAT64)
