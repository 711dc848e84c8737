"""From a configuration to a model with its first weights."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cornn import theory
from cornn.baselines import LAYERS
from cornn.layers import CoRNN
from cornn.models import SequenceModel
from cornn.paper import RIVALS, Recipe
from cornn.seeds import generator
from cornn.stacking import Stack
from cornn.tasks import Task
from cornn.training.config import Train

__all__ = ["MODELS", "build"]


def _cornn(task: Task, recipe: Recipe, backend: str) -> CoRNN:
    return CoRNN(
        task.inputs,
        recipe.hidden_size,
        recipe.num_layers,
        dt=recipe.dt,
        gamma=_gamma(task, recipe),
        epsilon=recipe.epsilon,
        damping=recipe.damping,
        trainable=recipe.trainable,
        per_neuron=bool(recipe.trainable),
        init=recipe.init,
        backend=backend,
    )


def _gamma(task: Task, recipe: Recipe) -> float | Tensor:
    """One for all neurons, or one a neuron from the half-lives or the periods that are asked for."""
    dt, epsilon, damping = recipe.dt, recipe.epsilon, recipe.damping
    if recipe.half_lives is not None:
        least = theory.shortest_half_life(dt, epsilon, damping=damping)
        first, last = (max(share * task.length, least) for share in recipe.half_lives)
        half_lives = theory.log_spaced(first, last, recipe.hidden_size)
        return theory.stiffness(half_lives, dt, epsilon, damping=damping)
    if recipe.periods is not None:
        first, last = (share * task.length for share in recipe.periods)
        periods = theory.log_spaced(first, last, recipe.hidden_size)
        return theory.ringing_stiffness(periods, dt, epsilon, damping=damping)
    assert recipe.gamma is not None
    return recipe.gamma


def _rival(name: str) -> Callable[..., Stack]:
    layer, options = LAYERS[name], RIVALS[name].options

    def make(task: Task, recipe: Recipe, backend: str, **given: float | str) -> Stack:
        return layer(task.inputs, recipe.hidden_size, recipe.num_layers, backend=backend, **{**options, **given})

    return make


def _torch(kind: Callable[..., nn.RNNBase]) -> Callable[[Task, Recipe, str], nn.RNNBase]:
    return lambda task, recipe, backend: kind(task.inputs, recipe.hidden_size, recipe.num_layers)


MODELS: dict[str, Callable[..., Stack | nn.RNNBase]] = {
    "cornn": _cornn,
    "lstm": _torch(nn.LSTM),
    "gru": _torch(nn.GRU),
    "rnn": _torch(nn.RNN),
    **{name: _rival(name) for name in LAYERS},
}
"""Name -> (task, recipe, backend, options of the layer) -> the recurrent layer."""


def build(config: Train, task: Task) -> SequenceModel:
    """The model of a configuration, with its first weights."""
    if config.model not in MODELS:
        raise ValueError(f"unknown model {config.model!r}: choose one of {', '.join(MODELS)}")
    recipe = config.settings
    layer = MODELS[config.model](task, recipe, config.backend, **(config.layer or {}))
    words = None if task.words is None else nn.Embedding.from_pretrained(task.words.clone(), False, task.padding)
    model = SequenceModel(layer, task.outputs, read=task.read, encoder=words)
    model.reset_parameters(generator(config.seed, "weights"))
    if recipe.centre:
        if not isinstance(layer, CoRNN):
            raise ValueError(f"centre is for coRNN's biases, the model is {config.model}: use --no-centre")
        layer.centre_(torch.tensor(task.input_mean))
    return model
