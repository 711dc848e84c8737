"""An ONNX file held against PyTorch in onnxruntime."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from cornn._extras import missing_extra
from cornn._random import generator
from cornn._stacking import Stack
from cornn._tf32 import no_tf32
from cornn.export.load import Trained
from cornn.export.recurrent import LAYERS
from cornn.models import SequenceModel

try:
    import onnxruntime
except ImportError as error:
    raise missing_extra("onnx", "the ONNX export needs onnxruntime to check itself") from error

__all__ = ["TOLERANCE", "by_pytorch", "check", "deviation", "session"]

TOLERANCE = 1e-5
"""Of the largest value of an output."""
SMALLEST = 1e-30
"""An output that is all zeros is compared with this."""
SEQUENCES, STEPS = 3, 100
"""What is drawn where there is no task to take sequences from."""

Arrays = dict[str, NDArray]


def session(content: bytes) -> Any:
    """The file in onnxruntime, on one thread of the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def check(content: bytes, trained: Trained, options: Any) -> float:
    """The largest deviation from PyTorch, on several shapes; raises if it is above `TOLERANCE`."""
    running = session(content)
    compare = _model if trained.estimator is None else _estimator
    found = compare(running, trained, options)
    if not found <= TOLERANCE:
        raise ValueError(
            f"in onnxruntime the model's output is {found:.1e} of its largest value away from PyTorch's, more than "
            f"{TOLERANCE:.0e}: it is not written. Is the model trained and finite? A network that amplifies rounding "
            "this much gives other numbers on every machine; one in float64 does less"
        )
    return found


def deviation(found: Arrays, wanted: Arrays) -> float:
    """The largest over all outputs, each as a share of its largest value."""
    shares = [0.0]
    for name, want in wanted.items():
        if found[name].shape != want.shape:
            raise ValueError(f"the output {name} has shape {found[name].shape}, PyTorch's has {want.shape}")
        largest = float(np.abs(want).max())
        shares.append(float(np.abs(found[name] - want).max()) / max(largest, SMALLEST))
    return float(np.max(shares))


def run(running: Any, feeds: Arrays) -> Arrays:
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(names, feeds), strict=True))


def _model(running: Any, trained: Trained, options: Any) -> float:
    given = trained.sequences(SEQUENCES)
    whole = _drawn(trained.model, running.get_inputs()[0]) if given is None else given.transpose(0, 1)
    found = 0.0
    # All of it, a single step of a single sequence, and a part.
    for batch, steps in (whole.shape[:2], (1, 1), (2, 7)):
        feeds = _feeds(trained.model, whole[:batch, :steps].contiguous(), options)
        found = np.maximum(found, deviation(run(running, feeds), by_pytorch(trained.model, feeds)))
    return float(found)


def _drawn(model: SequenceModel, port: Any) -> Tensor:
    """What the port of the input takes: (batch, time, features), or words (batch, time)."""
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
        feeds |= {name: torch.randn(shape, generator=random).to(numbers) for name in LAYERS[type(layer)].states}
    return {name: tensor.numpy() for name, tensor in feeds.items()}


@torch.no_grad()
def by_pytorch(model: SequenceModel, feeds: Arrays) -> Arrays:
    """What the file has to give for `feeds`."""
    layer: Any = model.layer
    given = {name: torch.from_numpy(value) for name, value in feeds.items()}
    names = LAYERS[type(layer)].states
    parts = tuple(given[name] for name in names) if names[0] in given else None
    state = parts[0] if parts is not None and len(names) == 1 else parts
    lengths, spans = given.get("lengths"), given.get("timespans")
    with no_tf32():
        features = model.encoder(given["input"].transpose(0, 1))
        if isinstance(layer, Stack):
            options = {"timespans": None if spans is None else spans.T}
            if lengths is None:
                output, last = layer(features, state, **options)
            else:
                output, last = None, layer.last_state(features, state, lengths=lengths, **options)
        else:
            packed = lengths is not None
            features = pack_padded_sequence(features, lengths, enforce_sorted=False) if packed else features
            output, last = layer(features, state)
        last = (last,) if isinstance(last, Tensor) else last
        answer = model.head(output).transpose(0, 1) if model.read == "every" else model.head(model.read_out(last))
    wanted = {"output": answer.numpy()}
    if state is not None:
        wanted |= {f"last_{name}": part.numpy() for name, part in zip(names, last, strict=True)}
    return wanted


def _estimator(running: Any, trained: Trained, options: Any) -> float:
    """Against `predict` or `predict_proba`; with a state also in two pieces."""
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
    rows = [own[:length] for own, length in zip(X, lengths, strict=True)]
    gaps = None
    if options.timespans:
        gaps = [own[:length] for own, length in zip(feeds["timespans"], lengths, strict=True)]
    want = (estimator.predict_proba if hasattr(estimator, "classes_") else estimator.predict)(rows, timespans=gaps)
    name = running.get_outputs()[0].name
    found = []
    for cut in (STEPS, 1, STEPS // 3) if options.state else (STEPS,):
        state = {port.name: _start(port, SEQUENCES) for port in running.get_inputs() if port.name not in feeds}
        answer: Arrays = {}
        for piece in (slice(0, cut), slice(cut, STEPS))[: 1 if cut == STEPS else 2]:
            own = {key: value[:, piece] for key, value in feeds.items() if key != "lengths"}
            if options.lengths:
                size = len(range(STEPS)[piece])
                own["lengths"] = np.clip(feeds["lengths"] - piece.start, 0, size)
            answer = run(running, own | state)
            state = {key: answer[f"last_{key}"] for key in state}
        found.append(deviation({name: answer[name]}, {name: np.asarray(want)}))
    return float(np.max(found))


def _start(port: Any, batch: int) -> NDArray:
    return np.zeros([batch if isinstance(size, str) else size for size in port.shape], np.float32)
