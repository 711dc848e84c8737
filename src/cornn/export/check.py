"""Compare an ONNX file in onnxruntime with PyTorch.

onnxruntime 1.31 writes a device identity and a queue of events to the user's cache folder when it is imported. The
variable ORT_DISABLE_TELEMETRY prevents it. It is set here, unless it is set already; it holds for the whole process.
"""

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cornn._extras import missing_extra
from cornn._random import generator
from cornn._stacking import Stack
from cornn._tf32 import no_tf32
from cornn.export.load import TrainedModel
from cornn.export.recurrent import state_names
from cornn.models import SequenceModel, average_steps

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
try:
    import onnxruntime
except ImportError as error:
    raise missing_extra("onnx", "the ONNX export needs onnxruntime to check the file") from error

__all__ = ["TOLERANCE", "check", "deviation", "open_session", "run_pytorch"]

TOLERANCE = 1e-5
"""Maximum deviation, relative to the largest value of an output."""
SMALLEST = 1e-30
"""Scale of an output that is all zeros."""
SEQUENCES, STEPS = 3, 100
"""Size of the random input for models without a task."""

Arrays = dict[str, NDArray]


def open_session(content: bytes) -> Any:
    """Open an ONNX file in onnxruntime, on one thread of the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def check(content: bytes, trained: TrainedModel, options: Any) -> float:
    """Return the largest deviation from PyTorch on several shapes; raise if it is above `TOLERANCE`."""
    running = open_session(content)
    compare = _model if trained.estimator is None else _estimator
    share = compare(running, trained, options)
    if not share <= TOLERANCE:
        raise ValueError(
            f"the output in onnxruntime deviates from PyTorch's by {share:.1e} of its largest value, more than "
            f"{TOLERANCE:.0e}: the file is not written. Check that the model is trained and finite. If it amplifies "
            "rounding errors, its results differ between machines; use float64"
        )
    return share


def deviation(outputs: Arrays, expected: Arrays) -> float:
    """Return the largest deviation over all outputs, each relative to its largest value."""
    shares = [0.0]
    for name, reference in expected.items():
        if outputs[name].shape != reference.shape:
            raise ValueError(f"output {name} has shape {outputs[name].shape}, but PyTorch's has {reference.shape}")
        largest = float(np.abs(reference).max())
        shares.append(float(np.abs(outputs[name] - reference).max()) / max(largest, SMALLEST))
    return float(np.max(shares))


def run(running: Any, feeds: Arrays) -> Arrays:
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(names, feeds), strict=True))


def _model(running: Any, trained: TrainedModel, options: Any) -> float:
    sequences = trained.sequences(SEQUENCES)
    input = _draw_input(trained.model, running.get_inputs()[0]) if sequences is None else sequences.transpose(0, 1)
    worst = 0.0
    # All of it, a single step of a single sequence, and a piece.
    for batch, steps in (input.shape[:2], (1, 1), (2, 7)):
        feeds = _feeds(trained.model, input[:batch, :steps].contiguous(), options)
        worst = np.maximum(worst, deviation(run(running, feeds), run_pytorch(trained.model, feeds)))
    return float(worst)


def _draw_input(model: SequenceModel, port: Any) -> Tensor:
    """Draw an input (batch, time, features), or words (batch, time)."""
    random = generator(0, "export", "input")
    if len(port.shape) == 2:
        words = next(part for part in model.encoder.modules() if isinstance(part, nn.Embedding))
        return torch.randint(0, words.num_embeddings, (SEQUENCES, STEPS), generator=random)
    return torch.randn(SEQUENCES, STEPS, port.shape[2], generator=random).to(model.head.weight.dtype)


def _feeds(model: SequenceModel, input: Tensor, options: Any) -> Arrays:
    random, (batch, steps), layer = generator(0, "export", "feeds"), input.shape[:2], model.layer
    numbers = model.head.weight.dtype
    feeds = {"input": input}
    if options.lengths:
        feeds["lengths"] = torch.randint(1, steps + 1, (batch,), generator=random)
    if options.timespans:
        feeds["timespans"] = torch.rand(batch, steps, generator=random).to(numbers) + 0.5
    if options.state:
        shape = (layer.num_layers * (2 if layer.bidirectional else 1), batch, layer.hidden_size)
        feeds |= {name: torch.randn(shape, generator=random).to(numbers) for name in state_names(layer)}
    return {name: tensor.numpy() for name, tensor in feeds.items()}


@torch.no_grad()
def run_pytorch(model: SequenceModel, feeds: Arrays) -> Arrays:
    """Compute the expected outputs for `feeds` with PyTorch."""
    layer: Any = model.layer
    tensors = {name: torch.from_numpy(value) for name, value in feeds.items()}
    names = state_names(layer)
    parts = tuple(tensors[name] for name in names) if names[0] in tensors else None
    state = parts[0] if parts is not None and len(names) == 1 else parts
    lengths, spans = tensors.get("lengths"), tensors.get("timespans")
    with no_tf32():
        features = model.encoder(tensors["input"].transpose(0, 1))
        if isinstance(layer, Stack):
            options = {"timespans": None if spans is None else spans.T}
            if lengths is None:
                output, last = layer(features, state, **options)
            else:
                output, last = None, layer.last_state(features, state, lengths=lengths, **options)
        else:
            packed = lengths is not None
            output, last = layer(
                pack_padded_sequence(features, lengths, enforce_sorted=False) if packed else features, state
            )
        last = (last,) if isinstance(last, Tensor) else last
        if model.read == "every":
            answer = model.head(output).transpose(0, 1)
        elif model.read == "mean":
            answer = model.head(_average_outputs(layer, features, lengths, spans))
        else:
            answer = model.head(model.read_out(last))
    expected = {"output": answer.numpy()}
    if state is not None:
        expected |= {f"last_{name}": part.numpy() for name, part in zip(names, last, strict=True)}
    return expected


def _average_outputs(layer: Any, features: Tensor, lengths: Tensor | None, spans: Tensor | None) -> Tensor:
    """Return the mean of the outputs over the steps of each sequence; spans: (batch, time)."""
    steps = len(features) if lengths is None else int(lengths.max())
    options = {} if spans is None else {"timespans": spans.T[:steps]}
    if lengths is None:
        return average_steps(layer(features, **options)[0], None)
    packed = pack_padded_sequence(features, lengths, enforce_sorted=False)
    return average_steps(pad_packed_sequence(layer(packed, **options)[0])[0], lengths)


def _estimator(running: Any, trained: TrainedModel, options: Any) -> float:
    """Compare with `predict` or `predict_proba`; with a state also in two pieces."""
    estimator, preparation = trained.estimator, trained.estimator.preparation_
    random = generator(0, "export", "values")
    shape = (SEQUENCES, STEPS, len(preparation.mean))
    X = (torch.randn(shape, generator=random).double().numpy() * preparation.scale + preparation.mean).astype("f4")
    if preparation.masked:
        X[torch.rand(shape, generator=random).numpy() < 0.2] = np.nan
    feeds: Arrays = {"input": X}
    if options.timespans:
        spans = torch.rand(shape[:2], generator=random).numpy() * 2 * (preparation.unit or 1)
        feeds["timespans"] = spans.astype("f4")
    lengths = torch.full(shape[:1], STEPS)
    if options.lengths:
        lengths = torch.randint(1, STEPS + 1, shape[:1], generator=random)
        feeds["lengths"] = lengths.numpy()
    if estimator.output_spec().meaning == "changes":
        # `predict` forecasts values that are missing at the end first; the file carries the last ones forward.
        last = np.arange(SEQUENCES), lengths.numpy() - 1
        X[last] = np.where(np.isnan(X[last]), preparation.mean, X[last])
    rows = [row[:length] for row, length in zip(X, lengths, strict=True)]
    gaps = None
    if options.timespans:
        gaps = [row[:length] for row, length in zip(feeds["timespans"], lengths, strict=True)]
    expected = (estimator.predict_proba if estimator.output_spec().classes else estimator.predict)(rows, timespans=gaps)
    name = running.get_outputs()[0].name
    deviations = []
    for cut in (STEPS, 1, STEPS // 3) if options.state else (STEPS,):
        ports = [port for port in running.get_inputs() if port.name not in feeds]
        sizes = [[SEQUENCES if isinstance(size, str) else size for size in port.shape] for port in ports]
        state = {port.name: np.zeros(shape, np.float32) for port, shape in zip(ports, sizes, strict=True)}
        answer: Arrays = {}
        for piece in (slice(0, cut), slice(cut, STEPS))[: 1 if cut == STEPS else 2]:
            inputs = {key: value[:, piece] for key, value in feeds.items() if key != "lengths"}
            if options.lengths:
                size = len(range(STEPS)[piece])
                inputs["lengths"] = np.clip(feeds["lengths"] - piece.start, 0, size)
            answer = run(running, inputs | state)
            state = {key: answer[f"last_{key}"] for key in state}
        deviations.append(deviation({name: answer[name]}, {name: np.asarray(expected)}))
    return float(np.max(deviations))
