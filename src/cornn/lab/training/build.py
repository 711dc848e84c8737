"""From a configuration to a model with its initial weights."""

import difflib

import torch
from torch import Tensor, nn

from cornn import theory
from cornn._random import generator
from cornn.baselines import MODELS
from cornn.baselines.layer import Layer
from cornn.lab.recipes import RIVALS, Recipe
from cornn.lab.tasks import Task
from cornn.lab.training.config import Train
from cornn.layers import CoRNN
from cornn.models import SequenceModel

__all__ = ["build"]


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
    """Return one stiffness for all neurons, or one per neuron from half-lives or periods."""
    dt, epsilon, damping = recipe.dt, recipe.epsilon, recipe.damping
    if recipe.half_lives is not None:
        least = theory.shortest_half_life(dt, epsilon, damping=damping)
        first, last = (max(share * task.length, least) for share in recipe.half_lives)
        half_lives = theory.log_spaced(first, last, recipe.hidden_size)
        return theory.stiffness_from_half_life(half_lives, dt, epsilon, damping=damping)
    if recipe.periods is not None:
        first, last = (share * task.length for share in recipe.periods)
        periods = theory.log_spaced(first, last, recipe.hidden_size)
        return theory.stiffness_from_period(periods, dt, epsilon, damping=damping)
    assert recipe.gamma is not None
    return recipe.gamma


def _layer(config: Train, task: Task) -> CoRNN | Layer | nn.RNNBase:
    kind, recipe = MODELS[config.model].layer, config.settings
    if issubclass(kind, CoRNN):
        return _cornn(task, recipe, config.backend)
    if issubclass(kind, nn.RNNBase):
        return kind(task.inputs, recipe.hidden_size, recipe.num_layers)  # pyright: ignore[reportArgumentType]
    options = {**(RIVALS[config.model].options if config.model in RIVALS else {}), **(config.layer or {})}
    return kind(task.inputs, recipe.hidden_size, recipe.num_layers, backend=config.backend, **options)


def build(config: Train, task: Task) -> SequenceModel:
    """Return the model of a configuration with its initial weights."""
    if config.model not in MODELS:
        close = difflib.get_close_matches(config.model, MODELS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown model {config.model!r}: {hint}choose one of {', '.join(MODELS)}")
    recipe = config.settings
    layer = _layer(config, task)
    words = None if task.words is None else nn.Embedding.from_pretrained(task.words.clone(), False, task.padding)
    model = SequenceModel(layer, task.outputs, read=task.read, encoder=words)
    model.reset_parameters(generator(config.seed, "weights"))
    if recipe.centre:
        if not isinstance(layer, CoRNN):
            raise ValueError(f"centre needs the model cornn, got {config.model}: use --no-centre")
        layer.centre_(torch.tensor(task.input_mean))
    return model
