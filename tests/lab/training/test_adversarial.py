"""Adversarial training against its definition, computed from vectors in place of words."""

import pytest
import synthetic
import torch
from tolerances import FLOAT64
from torch import nn

from cornn import CoRNN, SequenceModel
from cornn._arguments import ArgumentError
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.training.adversarial import add_adversary
from cornn.lab.training.side_by_side import fits_side_by_side
from cornn.lab.training.state import prepare

synthetic.register()

NORM = 0.3
PADDING = 1


def build(layer: nn.Module | None = None) -> SequenceModel:
    torch.manual_seed(0)
    layer = CoRNN(3, 5, dtype=torch.float64) if layer is None else layer
    return SequenceModel(layer, 1, encoder=nn.Embedding(20, 3, padding_idx=PADDING, dtype=torch.float64))


def make_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    words, lengths = torch.randint(2, 20, (7, 4)), torch.tensor([7, 3, 1, 5])
    words = words.masked_fill(torch.arange(7).unsqueeze(1) >= lengths, PADDING)
    return words, lengths, torch.randint(0, 2, (4, 1), dtype=torch.float64)


def loss_of(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(prediction, target)


@pytest.mark.parametrize("lengths_known", [True, False])
@pytest.mark.parametrize("kind", ["cornn", "gru"])
def test_loss_and_gradients_are_those_of_the_definition(kind, lengths_known):
    model = build(nn.GRU(3, 5, dtype=torch.float64) if kind == "gru" else None)
    words, lengths, target = make_batch()
    lengths = lengths if lengths_known else None
    loss = add_adversary(model.encoder, NORM, lambda: loss_of(model(words, lengths), target))
    gradients = torch.autograd.grad(loss, list(model.parameters()))

    rest = SequenceModel(model.layer, 1)  # the same layer, called with vectors
    rest.head = model.head
    vectors = model.encoder(words)
    (slope,) = torch.autograd.grad(loss_of(rest(vectors, lengths), target), vectors, retain_graph=True)
    slope = slope * (words != PADDING).unsqueeze(-1)
    perturbation = torch.stack([NORM * one / one.norm() for one in slope.unbind(1)], 1)
    plain, perturbed = (loss_of(rest(input, lengths), target) for input in (vectors, vectors + perturbation))
    assert perturbed > plain
    torch.testing.assert_close(loss, (plain + perturbed) / 2, **FLOAT64)
    expected = torch.autograd.grad((plain + perturbed) / 2, list(model.parameters()))
    for gradient, value in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, value, **FLOAT64)


def test_sequences_without_a_gradient_are_not_perturbed():
    model = build()
    words, lengths, target = make_batch()
    loss = add_adversary(model.encoder, NORM, lambda: loss_of(model(words, lengths)[:2], target[:2]))
    assert loss.isfinite()
    zero = add_adversary(model.encoder, NORM, lambda: model(words, lengths).sum() * 0.0)
    assert zero == 0
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, list(model.parameters())))


def test_no_hook_is_left_behind():
    model = build()
    words, lengths, target = make_batch()
    before = model(words, lengths)
    add_adversary(model.encoder, NORM, lambda: loss_of(model(words, lengths), target))
    torch.testing.assert_close(model(words, lengths), before, rtol=0, atol=0)


def test_training_uses_the_setting(tmp_path):
    runs = {}
    for norm in (0.0, NORM):
        config = resolve("synthetic", words=True, ragged=True, device="cpu", adversarial=norm)
        runs[norm] = training.fit(config, tmp_path / str(norm)).weights()
    assert any(not torch.equal(value, runs[NORM][name]) for name, value in runs[0.0].items())
    assert all(value.isfinite().all() for value in runs[NORM].values())


def test_an_interrupted_training_ends_the_same(tmp_path):
    config = resolve("synthetic", words=True, ragged=True, device="cpu", adversarial=NORM)
    with pytest.raises(KeyboardInterrupt):
        training.fit(config.override(save_every=0.0), tmp_path / "stopped", synthetic.stop_at(6))
    synthetic.assert_same_end(training.fit(config, tmp_path / "whole"), training.resume(tmp_path / "stopped"))


def test_models_are_trained_one_by_one():
    config = resolve("synthetic", words=True, device="cpu", adversarial=NORM)
    states = [prepare(config.override(seed=seed), training.connect(config)) for seed in (0, 1)]
    assert not fits_side_by_side(states, torch.device("cpu"))


def test_a_task_of_numbers_has_no_words_to_perturb():
    with pytest.raises(ArgumentError, match="adversarial perturbs embedded words, and the inputs of synthetic"):
        resolve("synthetic", adversarial=NORM)
