"""What is logged during training, and what is suggested before it."""

import math

import numpy as np
import pytest
import torch

from cornn import CoRNN
from cornn._random import generator
from cornn.functional import ACTIVATIONS
from cornn.theory import _watch, hypotheses, linear, measure, network_from_layer, suggest, watch

LENGTHS = (100, 500, 2000)


def an_input(length, batch=4):
    return torch.rand(length, batch, 2, generator=generator(0, "input"))


def gradient_at_the_first_step(layer, length):
    return watch(layer, an_input(length))["gradient_first"]


def test_watch_tells_what_the_functions_tell():
    layer = CoRNN(2, 16, dt=0.05, gamma=2.0, epsilon=3.0)
    found = watch(layer, an_input(50), sequences=2)
    network = network_from_layer(layer)
    assert (found["assumption"], found["assumption_limit"]) == hypotheses.assumption(network)
    assert found["assumption_limit"] == pytest.approx(0.05**0.5)
    assert found["r"] == hypotheses.largest_r(network)
    assert found["eta"] == hypotheses.eta(network)
    assert found["constant"] == hypotheses.smallest_constant(network, 0.5)
    ratio = measure.gradient_decay(network, measure.simulate(network, an_input(50)[:, :2])).mean(1)
    assert found["gradient_first"] == ratio[0].item()
    assert 0 < found["energy_share"] < 1
    assert found["gradient_first"] < found["gradient_half"] < found["gradient_quarter"] < 0
    assert all(math.isfinite(value) for value in found.values())


def test_watch_leaves_the_layer_and_its_gradients_alone():
    layer = CoRNN(2, 8)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    watch(layer, an_input(20).requires_grad_())
    assert all(parameter.grad is None for parameter in layer.parameters())
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_watch_simulates_a_few_sequences_once(monkeypatch):
    """One call at every hundredth step is then a small share; benchmarks/theory_watch.py measures it."""
    simulated, simulate = [], measure.simulate
    monkeypatch.setattr(_watch, "simulate", lambda net, input: simulated.append(input.shape) or simulate(net, input))
    watch(CoRNN(2, 8), an_input(20, 50))
    assert simulated == [(20, 2, 2)]


def test_watch_of_a_single_sequence_names_its_whole_shape():
    with pytest.raises(ValueError, match=r"input must be \(time, batch, 2\), got \(20, 2\)"):
        watch(CoRNN(2, 8), an_input(20)[:, 0])


def test_an_unstable_layer_is_watched_too():
    layer = CoRNN(2, 4, dt=0.9, gamma=80.0, epsilon=0.1)
    found = watch(layer, an_input(400))
    assert found["energy_share"] == 0
    assert found["energy"] > 1e6
    assert all(math.isfinite(value) for value in found.values())


def test_the_energy_of_any_bounded_activation_has_a_share_of_its_bound(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "own", ACTIVATIONS["tanh"])
    found = [watch(CoRNN(2, 4, dt=0.05, activation=name).double(), an_input(20)) for name in ("own", "relu")]
    assert found[0]["energy_share"] > 0
    assert found[1]["energy_share"] == 0


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize("length", LENGTHS)
def test_suggested_constants_are_stable_and_span_the_sequence(length, damping):
    found = suggest(length, 32, damping=damping)
    constants = (found.dt, found.gamma, found.epsilon)
    steps = linear.half_life(*constants, damping=damping)
    torch.testing.assert_close(steps[0].item(), 0.1 * length, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(steps[-1].item(), 10.0 * length, rtol=1e-6, atol=0.0)
    assert (found.dt < 0.5 * linear.stability_limit(found.gamma, found.epsilon, damping=damping)).all()
    assert (linear.damping_ratio(found.gamma, found.epsilon) > 1).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_suggested_starts_neither_vanish_nor_explode_where_the_papers_vanish(length):
    layer = suggest(length, 32).layer(2)
    layer.reset_parameters(generator(0, "suggest"))
    layer.centre_(torch.tensor([0.5, 0.5]))
    assert -1 < gradient_at_the_first_step(layer, length) < 1
    paper = CoRNN(2, 32, dt=0.016, gamma=94.5, epsilon=9.5)
    paper.reset_parameters(generator(0, "suggest"))
    if length >= 500:
        assert gradient_at_the_first_step(paper, length) < -15


def test_suggestions_say_how_far_they_are_known_to_carry():
    assert "solve the adding problem at this length" in suggest(5000, 64).explanation
    assert "treat them as a starting point" in suggest(50_000, 64).explanation
    own = suggest(300, 8, shortest=5, longest=50)
    assert own.half_lives[-1].item() == pytest.approx(50, rel=1e-6)
    assert suggest(300, 1).gamma.shape == (1,)
    assert suggest(300, 8, dt=0.1).dt == 0.1


def test_one_end_that_is_given_bounds_the_other():
    assert suggest(5000, 8, longest=400).half_lives[[0, -1]].tolist() == pytest.approx([4, 400])
    assert suggest(100, 8, shortest=5000).half_lives[[0, -1]].tolist() == pytest.approx([5000, 500_000])
    assert suggest(5000, 8, underdamped=True, longest=500).periods[[0, -1]].tolist() == pytest.approx([5, 500])
    assert suggest(10_000, 8, underdamped=True, longest=50).periods[[0, -1]].tolist() == pytest.approx([4, 50])
    assert suggest(100, 1, underdamped=True).periods.tolist() == pytest.approx([100])


def test_suggest_takes_the_integers_of_numpy():
    suggestion = suggest(np.int64(100), np.int64(8))
    assert suggestion.layer(2).hidden_size == 8
    assert repr(suggestion) == repr(suggest(100, 8))


def test_suggest_refuses_nonsense():
    with pytest.raises(ValueError, match="shortest must be at most longest, got 50 and 5"):
        suggest(300, 8, shortest=50, longest=5)
    with pytest.raises(ValueError, match="length must be an integer of at least 2"):
        suggest(1, 8)
    with pytest.raises(ValueError, match="dt must lie between 0 and 1"):
        suggest(100, 8, dt=1.5)
    for length, options in ((100.5, {}), (100, {"longest": math.inf}), (100, {"longest": 0}), (100, {"shortest": -5})):
        with pytest.raises(ValueError, match="must be"):
            suggest(length, 8, **options)
    with pytest.raises(ValueError, match="longest must be at least 4 steps with these settings, got 3"):
        suggest(100, 8, longest=3, underdamped=True)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_suggestion_is_the_recipe(length):
    """The recipe of docs/adding.md, whose records say that it is solved from every seed tried."""
    from cornn.lab.recipes import RECIPES

    recipe, found = RECIPES["adding"]["ours"].train.model, suggest(length, 128)
    assert (found.dt, found.init, found.centre) == (recipe.dt, recipe.init, recipe.centre)
    assert found.epsilon == pytest.approx(recipe.epsilon, rel=2e-3)
    ends = found.half_lives[[0, -1]].tolist()
    assert ends == pytest.approx([share * length for share in recipe.half_lives])


def test_the_feedback_forgets_the_sum_of_a_long_input_and_carries_gradients_past_it():
    length = 1000
    layer = suggest(length, 64).layer(2)
    layer.reset_parameters(generator(0, "feedback"))
    layer.centre_(torch.tensor([0.5, 0.0]))
    input = an_input(length, 100) * torch.tensor([1.0, 0.0])
    V, W, _, _ = layer.matrices()
    along = torch.linalg.qr(V.double())[0]
    head = torch.randn(64, generator=generator(0, "head"), dtype=torch.float64)
    within = along @ (along.T @ head)
    network = network_from_layer(layer)
    trajectory = measure.simulate(network, input[:, :2])

    def carried(direction):
        """The share of a gradient for the last y that gets to the first step."""
        sizes = measure.gradient_by_lag(network, trajectory, trajectory.y[-1] - direction)["state"]
        return (sizes[0] / sizes[-1]).mean().item()

    def noise():
        return layer.last_state(input)[0][-1].var(0).sum().item()

    # A direction orthogonal to V does not stay quite so: the slopes of tanh differ from neuron to neuron.
    assert carried(head - within) > 10 * carried(within)
    fed = noise()
    layer.set_matrices(W=torch.zeros_like(W))
    assert fed < 0.2 * noise()


def test_measure_needs_a_cornn():
    with pytest.raises(ValueError, match="got LSTM"):
        network_from_layer(torch.nn.LSTM(2, 3))
    with pytest.raises(ValueError, match="unknown damping 'none'"):
        measure.simulate(_unknown(), an_input(3))


def _unknown():
    from cornn.theory import network

    return network(torch.eye(2), torch.eye(2), 0.1, 1.0, 1.0, damping="none")


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize("length", [10, 784])
def test_neurons_that_ring_are_suggested_with_their_periods(length, damping):
    found = suggest(length, 32, underdamped=True, damping=damping)
    assert found.periods[0].item() == pytest.approx(max(0.01 * length, 4.0))
    assert found.periods[-1].item() == pytest.approx(length)
    assert found.half_lives.tolist() == pytest.approx([1.25 * length] * 32)
    assert "All neurons are underdamped" in found.explanation
    assert not found.layer(1).matrices().W.any()
    assert suggest(length, 4, underdamped=True, shortest=5, longest=8).periods[[0, -1]].tolist() == pytest.approx(
        [5, 8]
    )


def test_there_is_no_share_of_a_bound_that_is_not_there():
    assert watch(CoRNN(2, 4, activation="relu"), 1e3 * an_input(50))["energy_share"] == 0


def test_a_suggestion_prints_its_explanation():
    advice = suggest(500, 64)
    assert repr(advice) == f"Suggestion({advice.explanation})"
