"""`cornn check`: rows, words, page, exit codes."""

from dataclasses import replace

import pytest
import torch

from cornn import CoRNN
from cornn.lab.diagnose import of_task
from cornn.plots import diagnosis
from cornn.theory import bounds, diagnose

SMALL = {"hidden_size": 8, "length": 40}


def test_a_stiff_layer_forgets_and_is_told_so():
    found = diagnose.examine(diagnose.fresh(0.016, 94.5, 9.5, hidden_size=32, length=300))
    assert found.sound
    assert "every gradient must vanish, whatever the input" in found.meaning
    assert "can hardly be learned from" in found.meaning
    assert {condition.name for condition in found.conditions if not condition.holds} >= {"steps dt <= 1"}
    assert all(held is None or held.holds for _, held in found.held)


def test_an_unstable_layer_is_told_so():
    found = diagnose.examine(diagnose.fresh(0.9, 40.0, 0.1, hidden_size=8, length=200))
    assert "An uncoupled neuron is unstable" in found.meaning
    assert "of 200 steps; what follows is of those" in found.meaning
    assert found.sound
    assert "svg" in diagnosis.page(found)


def test_the_papers_case_has_the_strict_product():
    subject = diagnose.fresh(0.01, 1.0, 1.0, damping="implicit", hidden_size=4, length=40)
    held = {bound.label: held for bound, held in diagnose.examine(subject).held}
    assert held["eq:norm2"].holds


def test_a_task_before_training_and_its_paper_recipe():
    ours = diagnose.examine(of_task("adding", options={"length": 60}))
    assert "neither vanishing nor exploding" in ours.meaning
    assert ours.subject.input.shape == (60, 2, 2)
    with pytest.raises(ValueError, match="unknown task 'juggling'"):
        of_task("juggling")


def test_a_broken_bound_is_seen_and_strict_fails(cornn, monkeypatch):
    wrong = replace(bounds.BOUNDS[1], held=lambda network, trajectory: bounds.Held(1.0, 2.0, False))
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
    for word in ("hypothesis of the paper", "bound that stands", "half-life in steps", "Measured over 30 steps"):
        assert word in " ".join(out.split())
    text = (tmp_path / "page/check.html").read_text(encoding="utf8")
    assert "data:image/svg+xml;base64," in text
    assert "http" not in text.replace("http://www.w3.org", "")
    for word in ("prop:n3_cont", "Bounds that stand", "eq:ndt"):
        assert word in text


def test_check_of_a_run(cornn):
    short = ["--length", "20", "--hidden-size", "8", "--steps", "20", "--evaluate-every", "10", "--device", "cpu"]
    assert cornn("train", "adding", *short, "--out", "here", "--quiet")[0] == 0
    code, out, _ = cornn("check", "here", "--strict")
    assert code == 0
    assert "here: adding after training, 2 sequences of 20 steps" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "cornn: check what? Give one of"),
        (("--task", "adding", "--dt", "0.1"), "cornn: check what? Give one of"),
        (("--dt", "0.1"), "cornn: a fresh layer needs all three"),
        (("--task", "lorenz96", "--length", "5"), "cornn: the task lorenz96 has no --length of its own"),
        (("nowhere",), "cornn: nowhere is not a run folder"),
    ],
)
def test_what_cannot_be_checked_is_said_on_one_line(cornn, arguments, sentence):
    code, _, err = cornn("check", *arguments)
    assert code == 2
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_long_sequences_are_cut():
    assert diagnose.fresh(0.1, 1.0, 1.0, hidden_size=2, length=5000).input.shape[0] == diagnose.MOST_STEPS
    assert torch.isfinite(diagnose.fresh(0.1, 1.0, 1.0, **SMALL).input).all()


def test_the_length_that_was_asked_for_is_held_against_the_hypotheses():
    subject = diagnose.fresh(0.0009, 1.0, 1.0, hidden_size=2, length=5000)
    (condition,) = [one for one in diagnose.examine(subject).conditions if one.name == "steps dt <= 1"]
    assert condition.value == pytest.approx(4.5)
    assert not condition.holds


@pytest.mark.parametrize(
    ("dt", "gamma", "epsilon", "options", "sentence"),
    [
        (0.9, 1.0, 0.5, {"init": "separate", "length": 1000, "hidden_size": 64}, "neither vanishing nor exploding"),
        (0.9, 1000.0, 0.1, {"length": 300}, "An uncoupled neuron is unstable"),
        (0.5, 4.0, 2.0, {"init": "uncoupled", "length": 20}, "gradients change by a factor of 0"),
        (0.1, 1.0, 0.0, {}, "neither fades nor grows"),
        (0.1, 0.0, 0.0, {"damping": "implicit"}, "neither fades nor grows"),
        (0.1, 0.0, 0.5, {"damping": "implicit"}, "neither fades nor grows"),
    ],
)
def test_no_bound_breaks_where_numbers_end(dt, gamma, epsilon, options, sentence):
    """Growth beyond the range of numbers, products that come to nothing, no damping, no stiffness."""
    found = diagnose.examine(diagnose.fresh(dt, gamma, epsilon, **(SMALL | options)))
    assert found.sound
    assert sentence in found.meaning
    assert "nan" not in found.meaning
    assert "nan" not in "".join(fact.value for fact in found.facts)


def test_every_layer_of_several_can_be_checked():
    layer = CoRNN(2, 4, 3)
    input = torch.rand(20, 2, 2)
    second = diagnose.of_layer("own", layer, input, 1)
    assert second.name == "own, layer 2 of 3"
    with torch.no_grad():
        layer.cell(1).weight_hh.mul_(1e4)
    assert diagnose.of_layer("own", layer, input, 1).network.W.abs().max() > 100
    with pytest.raises(ValueError, match="there is no layer 4, the model has 3"):
        diagnose.of_layer("own", layer, input, 3)


def test_a_layer_is_checked_on_what_those_below_it_give():
    layer, input = CoRNN(2, 4, 2).double(), torch.rand(20, 2, 2, dtype=torch.float64)
    lower = CoRNN(2, 4).double()
    lower.load_state_dict({name: value for name, value in layer.state_dict().items() if "l0" in name})
    with torch.no_grad():
        torch.testing.assert_close(diagnose.of_layer("own", layer, input, 1).input, lower(input)[0])


@pytest.mark.parametrize(
    "arguments", [("--task", "adding", "--hidden-size", "8"), ("--dt", "0.1", "--layer", "1"), ("run", "--recipe", "x")]
)
def test_options_of_another_subject_are_refused(cornn, arguments):
    code, _, err = cornn("check", *arguments)
    assert code == 2
    assert "goes with" in err
