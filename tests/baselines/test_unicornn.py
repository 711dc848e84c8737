"""UnICORNN against its equations on every backend, in value and gradients; its guards and its memory."""

import pytest
import torch
from tolerances import FLOAT64
from torch import nn

from cornn import engine
from cornn._random import generator
from cornn.baselines import UnICORNN
from cornn.baselines.unicornn import UnICORNNCell
from cornn.models import count_parameters

TIME = 131


def network(**options):
    layer = UnICORNN(3, 4, dt=0.3, alpha=2.0, dtype=torch.float64, **options)
    layer.reset_parameters(generator(0, "weights"))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3
    return layer


def data(steps=TIME, purpose="input"):
    return torch.randn(steps, 2, 3, generator=generator(0, purpose), dtype=torch.float64)


def published(cell, input, y, z, spans, lengths):
    """The equations of the article, step by step; past its end a sequence keeps its state."""
    outputs, s = [], cell.dt * torch.sigmoid(cell.c)
    bias = 0 if cell.bias is None else cell.bias
    for n, u in enumerate(input):
        live = (n < lengths).unsqueeze(-1)
        s_n = s * spans[n].unsqueeze(-1)
        next_z = z - s_n * (torch.tanh(cell.weight_hh * y + u @ cell.weight_ih.T + bias) + cell.alpha * y)
        y, z = torch.where(live, y + s_n * next_z, y), torch.where(live, next_z, z)
        outputs.append(y)
    return torch.stack(outputs), (y, z)


@pytest.mark.parametrize("backend", ["reference", "portable", "c"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("uneven", [True, False], ids=["uneven", "even"])
@pytest.mark.parametrize("every", [True, False], ids=["output", "last-state"])
def test_layer_and_its_gradients_are_those_of_the_equations(backend, bias, uneven, every):
    problem = engine.Problem(
        engine.UPDATES[UnICORNNCell.update], torch.device("cpu"), torch.float64, 1, TIME, 2, 4, uneven
    )
    if backend == "c" and not engine.BACKENDS["c"].usable(problem)[0]:
        pytest.skip("no C library")
    layer = network(bias=bias, backend=backend)
    lengths = torch.tensor([TIME, TIME] if every else [TIME, TIME // 2])

    def found(by_layer):
        input = data().requires_grad_()
        state = torch.randn(2, 1, 2, 4, generator=generator(0, "state"), dtype=torch.float64).requires_grad_()
        spans = (0.5 + torch.rand(TIME, 2, generator=generator(0, "spans"), dtype=torch.float64)).requires_grad_()
        given = {"timespans": spans} if uneven else {}
        if not by_layer:
            output, (y, z) = published(
                layer.cell(), input, *state[:, 0], spans if uneven else torch.ones_like(spans), lengths
            )
        elif every:
            output, (y, z) = layer(input, tuple(state), **given)
        else:
            y, z = layer.last_state(input, tuple(state), lengths=lengths, **given)
            output = y
        value = (y * z).sum() + z.sum() + ((output * output.detach().cos()).sum() if every else 0)
        return (
            y.flatten(),
            z.flatten(),
            *torch.autograd.grad(value, [*layer.parameters(), input, state, *given.values()]),
        )

    for got, want in zip(found(True), found(False), strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)


def test_a_step_of_the_cell_is_a_step_of_the_layer():
    layer, input = network(), data(2)
    _, state = layer(input[:1])
    want = layer(input)[1]
    got = layer.cell()(input[1], tuple(part[0] for part in state))
    torch.testing.assert_close(got, tuple(part[0] for part in want), **FLOAT64)


def test_checkpoints_save_memory_in_training():
    """Bytes that autograd keeps, less the input, the output and the parameters."""

    def kept(**options):
        layer, input, saved = network(**options), data(1000).requires_grad_(), {}

        def pack(tensor):
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = layer(input)[0]
        for own in (input, output, *layer.parameters()):
            saved.pop(own.untyped_storage().data_ptr(), None)
        return sum(saved.values())

    assert kept(checkpoint_every=32) < kept() / 5


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
