"""Models with drawn weights for the tests of exported C, and what those tests need of the machine."""

from pathlib import Path

import pytest
import torch
from torch import nn

from cornn import CoRNN
from cornn._random import generator
from cornn.export.c import cortex, host
from cornn.models import SequenceModel

ROOT = Path(__file__).parents[2]
needs_gcc = pytest.mark.skipif(host.find_compiler() is None, reason="no gcc, clang or cc on this machine")
needs_emulator = pytest.mark.skipif(
    bool(cortex.missing_tools()), reason=f"no {', '.join(cortex.missing_tools())} on this machine"
)

SHAPES = {
    "one layer": {},
    "sizes that four does not divide": {"hidden": 5, "inputs": 1, "outputs": 3},
    "two layers": {"layers": 2},
    "implicit damping": {"damping": "implicit"},
    "constants of each neuron": {"each": True},
    "two layers, implicit damping, constants of each neuron": {"layers": 2, "damping": "implicit", "each": True},
    "words": {"words": 30},
    "an answer after every step": {"read": "every", "layers": 2},
    "no bias": {"bias": False, "outputs": 2},
}


def build(*, layers=1, hidden=12, inputs=3, outputs=1, damping="explicit", each=False, words=0, read="last", bias=True):
    """A model with drawn weights, and sequences for it."""
    random = generator(0, "export", "test")
    spread = torch.linspace(0.5, 2, hidden) if each else 1.0
    layer = CoRNN(
        inputs, hidden, layers, bias, dt=0.1 * spread, gamma=0.5 * spread, epsilon=2.0 / spread, damping=damping
    )
    encoder = nn.Embedding(words, inputs) if words else None
    model = SequenceModel(layer, outputs, read=read, encoder=encoder)
    model.reset_parameters(random)
    with torch.no_grad():
        for cell in layer.cells.values():
            # Strong enough that tanh bends.
            cell.weight_ih.mul_(4)
            cell.weight_hh.mul_(4)
        if words:
            model.encoder.weight.copy_(torch.randn(words, inputs, generator=random))
    data = torch.randint(words, (40, 24), generator=random) if words else torch.randn(40, 24, inputs, generator=random)
    return model, data
