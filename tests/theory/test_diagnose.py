"""`cornn check`: rows, words, page, exit codes."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cornn import CoRNN, theory
from cornn.cli import console
from cornn.functional import ACTIVATIONS, Activation
from cornn.lab.diagnose import subject_from_task
from cornn.plots import diagnosis
from cornn.theory import Subject, _diagnose, bounds, diagnose, measure, subject_from_constants, subject_from_layer
from cornn.theory.counterexamples import chaotic_network

ROOT = Path(__file__).parents[2]
MODULES = {"bounds", "claims", "counterexamples", "energy", "gradients", "hypotheses", "linear", "measure", "ode"}
MODULES |= {"register", "representation", "small_gain"}
SMALL = {"hidden_size": 8, "length": 40}


def test_summary_reports_vanishing_gradients_of_a_stiff_layer():
    found = diagnose(subject_from_constants(0.016, 94.5, 9.5, hidden_size=32, length=300))
    assert found.is_sound
    assert "every gradient must vanish, for any input" in found.summary
    assert "can hardly be learned from" in found.summary
    assert {condition.name for condition in found.conditions if not condition.holds} >= {"steps dt <= 1"}
    assert all(comparison is None or comparison.holds for _, comparison in found.comparisons)


def test_summary_reports_an_unstable_layer():
    found = diagnose(subject_from_constants(0.9, 40.0, 0.1, hidden_size=8, length=200))
    assert "Uncoupled neurons are unstable" in found.summary
    assert "of 200 steps; the rest covers those steps" in found.summary
    assert found.is_sound
    assert "svg" in diagnosis.render_page(found)


def test_the_papers_case_has_the_strict_product():
    subject = subject_from_constants(0.01, 1.0, 1.0, damping="implicit", hidden_size=4, length=40)
    found = {bound.label: comparison for bound, comparison in diagnose(subject).comparisons}
    assert found["eq:norm2"].holds


def test_a_task_before_training_and_its_paper_recipe():
    ours = diagnose(subject_from_task("adding", options={"length": 60}))
    assert "neither vanishing nor exploding" in ours.summary
    assert ours.subject.input.shape == (60, 2, 2)
    with pytest.raises(ValueError, match="unknown task 'juggling'"):
        subject_from_task("juggling")


def test_a_broken_bound_is_seen_and_strict_fails(cornn, monkeypatch):
    wrong = replace(bounds.BOUNDS[1], compare=lambda case: bounds.Comparison(1.0, 2.0, False))
    monkeypatch.setattr(bounds, "BOUNDS", (wrong,))
    code, out, _ = cornn(
        "check", "--dt", "0.1", "--gamma", "1", "--epsilon", "1", "--hidden-size", "4", "--length", "20"
    )
    assert code == 0
    assert "BROKEN" in out
    code, _, _ = cornn(
        "check", "--dt", "0.1", "--gamma", "1", "--epsilon", "1", "--hidden-size", "4", "--length", "20", "--strict"
    )
    assert code == 1


def test_check_prints_tables_and_writes_a_page_that_stands_alone(cornn, tmp_path):
    arguments = ("--dt", "0.1", "--gamma", "0.5", "--epsilon", "4", "--hidden-size", "6", "--length", "30")
    code, out, err = cornn("check", *arguments, "--html", "page/check.html", "--strict")
    assert (code, err) == (0, "")
    for word in ("hypothesis of the paper", "proven bound", "half-life in steps", "Measured over 30 steps"):
        assert word in " ".join(out.split())
    text = (tmp_path / "page/check.html").read_text(encoding="utf8")
    assert "data:image/svg+xml;base64," in text
    assert "http" not in text.replace("http://www.w3.org", "")
    for word in ("prop:n3_cont", "Proven bounds", "eq:ndt"):
        assert word in text


def test_check_shows_its_progress(cornn, monkeypatch):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    code, _, err = cornn("check", "--dt", "0.1", "--gamma", "1", "--epsilon", "4", "--length", "20")
    assert code == 0
    assert "measuring states and gradients, 50%" in err.splitlines()


def test_a_small_layer_is_diagnosed_on_one_thread():
    """With more, the short parallel sections of linear algebra wait for each other."""
    threads, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        diagnose(subject_from_constants(0.1, 1.0, 4.0, **SMALL), lambda share: seen.append(torch.get_num_threads()))
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_check_of_a_run(cornn):
    short = ["--length", "20", "--hidden-size", "8", "--steps", "20", "--evaluate-every", "10", "--device", "cpu"]
    assert cornn("train", "adding", *short, "--out", "here", "--quiet")[0] == 0
    code, out, _ = cornn("check", "here", "--strict")
    assert code == 0
    assert "here: adding after training, 2 sequences of 20 steps" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "cornn: nothing to check: pass one of"),
        (("--task", "adding", "--dt", "0.1"), "cornn: --task and --dt exclude each other: pass one of"),
        (("--dt", "0.1"), "cornn: an untrained layer needs all three"),
        (("--task", "lorenz96", "--length", "5"), "cornn: the task lorenz96 has no setting 'length': leave it out"),
        (("nowhere",), "cornn: nowhere does not exist: pass a run folder of `cornn train`"),
    ],
)
def test_errors_are_one_line(cornn, arguments, sentence):
    code, _, err = cornn("check", *arguments)
    assert code == 2
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_long_sequences_are_cut():
    assert subject_from_constants(0.1, 1.0, 1.0, hidden_size=2, length=5000).input.shape[0] == _diagnose.MAX_STEPS
    assert torch.isfinite(subject_from_constants(0.1, 1.0, 1.0, **SMALL).input).all()


def test_hypotheses_use_the_requested_length(monkeypatch):
    monkeypatch.setattr(_diagnose, "MAX_STEPS", 50)
    subject = subject_from_constants(0.0009, 1.0, 1.0, hidden_size=2, length=5000)
    (condition,) = [one for one in diagnose(subject).conditions if one.name == "steps dt <= 1"]
    assert condition.value == pytest.approx(4.5)
    assert not condition.holds


@pytest.mark.parametrize(
    ("dt", "gamma", "epsilon", "options", "sentence"),
    [
        pytest.param(
            *(0.9, 1.0, 0.5, {"init": "separate", "length": 1000, "hidden_size": 64}),
            "neither vanishing nor exploding",
            marks=pytest.mark.slow,
        ),
        (0.9, 1000.0, 0.1, {"length": 300}, "Uncoupled neurons are unstable"),
        (0.5, 4.0, 2.0, {"init": "uncoupled", "length": 20}, "gradients change by a factor of 0"),
        (0.1, 1.0, 0.0, {}, "neither decay nor grow"),
        (0.1, 0.0, 0.0, {"damping": "implicit"}, "neither decay nor grow"),
        (0.1, 0.0, 0.5, {"damping": "implicit"}, "neither decay nor grow"),
    ],
)
def test_no_bound_breaks_at_overflow_and_underflow(dt, gamma, epsilon, options, sentence):
    """Overflow, products that become zero, no damping, no stiffness."""
    found = diagnose(subject_from_constants(dt, gamma, epsilon, **(SMALL | options)))
    assert found.is_sound
    assert sentence in found.summary
    assert "nan" not in found.summary
    assert "nan" not in "".join(fact.value for fact in found.facts)


def test_every_layer_of_several_can_be_checked():
    layer = CoRNN(2, 4, 3)
    input = torch.rand(20, 2, 2)
    second = subject_from_layer("own", layer, input, 1)
    assert second.name == "own, layer 2 of 3"
    layer.set_matrices(1, W=torch.full((4, 4), 1e4))
    assert subject_from_layer("own", layer, input, 1).network.W.abs().max() > 100
    with pytest.raises(ValueError, match="there is no layer 4: the model has 3"):
        subject_from_layer("own", layer, input, 3)


def test_input_of_a_layer_is_the_output_of_the_layers_below():
    layer, input = CoRNN(2, 4, 2).double(), torch.rand(20, 2, 2, dtype=torch.float64)
    lower = CoRNN(2, 4).double()
    lower.load_state_dict({name: value for name, value in layer.state_dict().items() if "l0" in name})
    with torch.no_grad():
        torch.testing.assert_close(subject_from_layer("own", layer, input, 1).input, lower(input)[0])


@pytest.mark.parametrize(
    "arguments", [("--task", "adding", "--hidden-size", "8"), ("--dt", "0.1", "--layer", "1"), ("run", "--recipe", "x")]
)
def test_options_of_another_subject_are_refused(cornn, arguments):
    code, _, err = cornn("check", *arguments)
    assert code == 2
    assert "only applies to" in err


def test_a_new_activation_has_no_proven_bounds(monkeypatch):
    steep = Activation(value=lambda x: torch.tanh(5 * x), slope=lambda x: 5 * (1 - torch.tanh(5 * x) ** 2))
    monkeypatch.setitem(ACTIVATIONS, "steep", steep)
    subject = subject_from_constants(0.1, 1.0, 1.0, **SMALL)
    found = diagnose(replace(subject, network=replace(subject.network, activation="steep")))
    assert all(comparison is None for _, comparison in found.comparisons)
    assert "No growth rate of gradients is proven" in found.summary


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_what_they_promise(activation):
    sigma, x = ACTIVATIONS[activation], torch.linspace(-50, 50, 10_001, dtype=torch.float64)
    assert not sigma.unit_bounded or (sigma.value(x).abs() <= 1).all()
    assert not sigma.unit_slope or ((sigma.slope(x) >= 0) & (sigma.slope(x) <= 1)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [(-7, "they vanish"), (-5.2, "they shrink strongly"), (0.1, "neither"), (3.1, "they explode")],
)
def test_verdict_of_measured_gradients(change, words):
    assert words in _diagnose._measured_growth(change, 100)


@pytest.mark.parametrize("steps", [50, 200])
def test_a_contracting_layer_is_not_said_to_diverge(steps):
    """Its exponent over 50 and 200 steps is positive: single steps stretch some vectors."""
    input = torch.rand(steps, 2, 2, generator=torch.Generator().manual_seed(0))
    found = diagnose(subject_from_layer("own", CoRNN(2, 8), input))
    assert "every gradient must vanish" in found.summary
    assert "diverge" not in found.summary
    assert ("a transient" in found.summary) == (steps < 1000)


@pytest.mark.parametrize(("steps", "diverge"), [(10, False), (400, True)])
def test_a_chaotic_layer_diverges_once_the_growth_is_large(steps, diverge):
    network, input = chaotic_network()
    found = diagnose(Subject("own", network, input[:steps], steps))
    assert ("nearby states diverge (chaos" in found.summary) == diverge


def test_constants_that_differ_are_a_range():
    assert _diagnose._span(torch.tensor([1.0, 2.5])) == "1 to 2.5"
    assert _diagnose._span(torch.tensor([3.0, 3.0])) == "3"


def test_the_bounds_of_products_are_in_the_euclidean_norm():
    """At lag 0 that of the max norm is sqrt(2 m)."""
    subject = subject_from_constants(0.01, 1.0, 1.0, damping="implicit", **SMALL)
    figure = diagnosis.draw_diagnosis(subject.network, measure.simulate(subject.network, subject.input[:, :1]))
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[2].get_lines()}
    assert lines["bound: product of norms"][0] == pytest.approx(math.log10(math.sqrt(2 * 8)))
    assert all(bound[-1] >= lines["measured"][-1] for name, bound in lines.items() if name.startswith("bound"))


def test_every_documented_name_of_the_theory_is_there():
    listed = re.findall(r"^([a-z_]+)  ", theory.__doc__, re.M)
    assert set(listed) == {*MODULES, "diagnose", "watch", "suggest", "network"}
    assert set(listed) <= set(theory.__all__)
    assert all(isinstance(getattr(theory, name), ModuleType) == (name in MODULES) for name in listed)
    page = (ROOT / "docs" / "api-theory.md").read_text(encoding="utf8")
    assert set(re.findall(r"(?:`|: cornn\.)theory\.([A-Za-z]\w+)", page)) <= set(theory.__all__)
