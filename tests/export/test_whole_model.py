"""`torch.export` and `torch.compile` take a whole model: encoder, layer and head, of any batch and any length."""

import io

import jaxtyping
import pytest
import torch
from tolerances import FLOAT32
from torch import nn

from cornn import CoRNN
from cornn._random import generator
from cornn.models import SequenceModel

FREE = torch.export.Dim.DYNAMIC


@pytest.fixture(autouse=True)
def _compiler(monkeypatch):
    """Dynamo as new, and no run-time checks of shapes, which it cannot trace."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    torch.compiler.reset()


def model_of(read: str, **options) -> SequenceModel:
    model = SequenceModel(CoRNN(3, 8, **options), 2, read=read, encoder=nn.Embedding(11, 3))
    model.reset_parameters(generator(0, "model"))
    return model


def words(steps: int, batch: int) -> torch.Tensor:
    return torch.randint(0, 11, (steps, batch), generator=generator(0, "words"))


@pytest.mark.parametrize("read", ["last", "every"])
def test_exported(read):
    model = model_of(read, num_layers=2, bidirectional=True, trainable="dt").eval()
    program = torch.export.export(model, (words(5, 3),), dynamic_shapes=({0: FREE, 1: FREE},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    for shape in ((9, 2), (4, 7)):
        torch.testing.assert_close(again(words(*shape)), model(words(*shape)), **FLOAT32)


def test_exported_with_lengths():
    model = model_of("last").eval()
    lengths = torch.tensor([5, 2, 3])
    dynamic = ({0: FREE, 1: FREE}, {0: FREE})
    program = torch.export.export(model, (words(5, 3), lengths), dynamic_shapes=dynamic)
    lengths = torch.tensor([1, 9, 4, 6])
    torch.testing.assert_close(program.module()(words(9, 4), lengths), model(words(9, 4), lengths), **FLOAT32)


@pytest.mark.slow
def test_compiled_with_its_gradients():
    model = model_of("last", num_layers=2)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((5, 3), (9, 2), (4, 7)):
        answers = [run(words(*shape)) for run in (compiled, model)]
        torch.testing.assert_close(*answers, **FLOAT32)
        gradients = [torch.autograd.grad(answer.square().sum(), list(model.parameters())) for answer in answers]
        torch.testing.assert_close(*gradients, **FLOAT32)
