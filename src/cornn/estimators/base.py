"""What the three estimators share: settings, reading, training, saving, streaming."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.estimators.network import Loss, Network, Schedule, device_of, predicted, train, wanted
from cornn.estimators.preparation import Padded, Preparation, prepare
from cornn.estimators.sequences import Columns, Read, is_frame, read_sequences, sequence_ids, target_of
from cornn.estimators.stored import plain, read, write
from cornn.models import SequenceModel
from cornn.streaming import Stream, open_stream

__all__ = ["Estimator", "PredictionStream", "check_settings", "drawn", "parts", "usual_batch"]

VALIDATION_SHARE = 0.1  # unless another one is asked for
FEWEST_FOR_VALIDATION = 500  # sequences; a tenth of fewer says too little, and is missed where it was taken
LARGEST_BATCH = 32  # sequences, unless another size is asked for


HeldOut = Callable[[int, torch.Generator], Tensor]
"""(count, generator) -> the rows of the sequences for validation."""


class PredictionStream:
    """`prediction = stream(sample)`: what the estimator predicts for the sequence up to this sample.

    sample: (features), or a number; NaN where a value is missing.
    timespan: the time since the sample before, in the unit of the training data; None: the usual one.
    """

    def __init__(self, stream: Stream, preparation: Preparation, finish: Callable[[NDArray, Stream], Any]) -> None:
        self.stream = stream
        self._preparation, self._finish = preparation, finish

    def __call__(self, sample: Any, timespan: float | None = None) -> Any:
        factor = 1.0 if timespan is None else self._preparation.timespan(timespan)
        if sample.__class__ is not float:
            sample = np.asarray(sample, np.float64)
        # Of a handful of numbers: numpy's calls would take longer than the step itself.
        if any(map(math.isinf, (sample,) if sample.__class__ is float else sample.ravel().tolist())):
            raise ValueError("the sample holds infinity: replace it, or give NaN if the value is missing")
        answer = self.stream(sample, factor)
        if not math.isfinite(sum(answer.tolist())):
            raise ValueError(
                "the network's answer is not finite: a sample is too far from those of the training, or the weights "
                "are damaged; `reset` the stream and correct the sample, or fit anew"
            )
        return self._finish(answer, self.stream)

    def reset(self) -> None:
        """Begin a new sequence."""
        self.stream.reset()

    def to_bytes(self) -> bytes:
        """The state, for `restore`."""
        return self.stream.to_bytes()

    def restore(self, state: bytes) -> None:
        """Go on where another stream of this estimator was; `to_bytes` gave its state."""
        self.stream.restore(state)


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(BaseEstimator):
    """Settings that all have; each estimator's own are in its docstring.

    hidden_size, num_layers, bidirectional: of the network.
    dt, gamma, epsilon: step, stiffness and damping, a number or one a neuron; None: `theory.suggest` for the length of
        the training sequences.
    damping: "explicit" or "implicit"; None: implicit where times are uneven, since it bears long gaps, else explicit.
    epochs, learning_rate, weight_decay: of Adam, with cosine decay.
    batch_size: sequences a step; None: an eighth of them, at most 32.
    validation_share: of the training sequences, held out to end training in time; 0: none. None: a tenth where there
        are 500 sequences or more, else none.
    patience: epochs without a better validation loss, after which training ends.
    id_column, time_column, value_columns: of a frame in long form: which sequence a row belongs to, when it was taken
        (or None), and its values (None: all other columns).
    device: "auto" takes a GPU where there is one. backend: of `cornn.CoRNN`.
    random_state: the same number gives the same result.
    verbose: whether to print the losses as training goes on.
    """

    hidden_size: int = 64
    num_layers: int = 1
    bidirectional: bool = False
    dt: float | Sequence[float] | None = None
    gamma: float | Sequence[float] | None = None
    epsilon: float | Sequence[float] | None = None
    damping: str | None = None
    epochs: int = 200
    batch_size: int | None = None
    learning_rate: float = 0.003
    weight_decay: float = 0.0
    validation_share: float | None = None
    patience: int = 50
    id_column: str | None = None
    time_column: str | None = None
    value_columns: Sequence[str] | None = None
    device: str = "auto"
    backend: str = "auto"
    random_state: Any = None
    verbose: bool = False

    watch: ClassVar[Callable[[dict[str, float]], None] | None] = None
    """Called with the losses of every epoch as it ends, where a program has set it."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = tags.input_tags.two_d_array = tags.input_tags.allow_nan = True
        return tags

    def ids(self, frame: Any) -> NDArray:
        """The ids of a frame's sequences, in the order of what `predict` gives."""
        if self.id_column is None:
            raise ValueError("set id_column to read frames in long form")
        return sequence_ids(frame, self.id_column)[0]

    def save(self, path: Any) -> None:
        """Write settings and weights to one file in the format of safetensors."""
        check_is_fitted(self, "model_")
        arrays = {f"model.{name}": value.numpy() for name, value in self.model_.state_dict().items()}
        preparation = asdict(self.preparation_)
        arrays |= {name: preparation.pop(name) for name in ("mean", "scale")}
        about = {
            "kind": type(self).__name__,
            "settings": {name: plain(name, value) for name, value in self.get_params(deep=False).items()},
            "network": asdict(self.network_),
            "preparation": preparation,
            "columns": self.columns_,
            "history": self.history_,
            "learned": self._learned(),
        }
        write(path, about, arrays)

    @classmethod
    def load(cls, path: Any) -> Self:
        """What `save` wrote. Nothing that the file holds is executed."""
        about, arrays = read(path)
        if about["kind"] != cls.__name__:
            raise ValueError(f"{path} holds a {about['kind']}, not a {cls.__name__}: use cornn.estimators.load")
        try:
            return cls._restored(about, arrays)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            # What is missing or does not fit shows itself in many ways; PyTorch says it on several lines.
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(f"{path} is damaged: {said}; fit and save it anew") from error

    @classmethod
    def _restored(cls, about: dict[str, Any], arrays: dict[str, NDArray]) -> Self:
        settings = about["settings"]
        for name, value in settings.items():
            if isinstance(value, dict):
                settings[name] = dict(zip(value["keys"], value["values"], strict=True))
        self = cls(**settings)
        self.network_ = Network(**about["network"])
        self.preparation_ = Preparation(mean=arrays["mean"], scale=arrays["scale"], **about["preparation"])
        self.columns_, self.history_ = about["columns"], about["history"]
        self.model_ = self.network_.build(self.backend)
        weights = {name.removeprefix("model."): value for name, value in arrays.items() if name.startswith("model.")}
        self.model_.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
        self.n_features_in_ = len(self.preparation_.mean)
        self._learn(about["learned"])
        features = self.preparation_.features
        if self.preparation_.scale.shape != self.preparation_.mean.shape or features != self.network_.features:
            raise ValueError(f"the scaling is of {features} features, the network of {self.network_.features}")
        if self._answers() != self.network_.outputs:
            raise ValueError(f"it answers with {self._answers()} numbers, its network has {self.network_.outputs}")
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} holds what is no finite number")
        return self

    def _answers(self) -> int:
        """How many numbers the network has to give."""
        raise NotImplementedError

    def _learned(self) -> dict[str, Any]:
        """What an estimator of one kind knows beyond the network, in values that JSON holds."""
        raise NotImplementedError

    def _learn(self, learned: dict[str, Any]) -> None:
        raise NotImplementedError

    def _columns(self, values: Sequence[str] | None = None) -> Columns:
        return Columns(self.id_column, self.time_column, values or self.value_columns)

    def _read(self, X: Any, y: Any, timespans: Any) -> tuple[list[Read], Any]:
        """Sequences and targets for `fit`; notes which columns they came from."""
        self.columns_ = None
        if not (is_frame(X) and self.id_column is not None):
            if isinstance(y, str):
                raise ValueError("y names a column, and X is no frame in long form: set id_column, or give the values")
            return read_sequences(X, self._columns(), timespans), y
        used = {self.id_column, self.time_column, y if isinstance(y, str) else None}
        named = self.value_columns or [name for name in X.columns if name not in used]
        self.columns_ = [str(name) for name in named]
        sequences = read_sequences(X, self._columns(named), timespans)
        return sequences, None if y is None else target_of(X, y, self.id_column)

    def _again(self, X: Any, timespans: Any) -> list[Read]:
        """Sequences for a fitted estimator."""
        check_is_fitted(self, "model_")
        sequences = read_sequences(X, self._columns(self.columns_), timespans)
        self.preparation_.check(sequences)
        return sequences

    def _train(
        self, sequences: list[Read], outputs: int, loss: Callable[[Padded, Preparation], Loss], held_out: HeldOut
    ):
        check_settings(self)
        length = max(len(sequence.values) for sequence in sequences)
        damping = self.damping or ("implicit" if _uneven(sequences) else "explicit")
        constants = wanted(
            length, int(self.hidden_size), dt=self.dt, gamma=self.gamma, epsilon=self.epsilon, damping=damping
        )
        # A search may bring numpy's numbers, which neither the layer nor JSON takes.
        shape = {"hidden_size": int(self.hidden_size), "num_layers": int(self.num_layers)}
        shape |= {"bidirectional": bool(self.bidirectional)}
        probe = Network(features=1, outputs=outputs, **shape, **constants)
        preparation = prepare(sequences, probe.longest_span())
        network = Network(features=preparation.features, outputs=outputs, **shape, **constants)
        seed = self._seed()
        model, device = network.build(self.backend), device_of(self.device)
        network.start(model, seed)
        training, validation = parts(len(sequences), self.validation_share, held_out, seed)
        schedule = Schedule(
            self.epochs,
            self.batch_size or usual_batch(len(training)),
            self.learning_rate,
            self.weight_decay,
            self.patience,
            seed,
            self._report,
        )
        data = preparation(sequences).to(device)
        with no_tf32():
            history = train(model.to(device), data, loss(data, preparation), (training, validation), schedule)
        self.model_, self.network_, self.preparation_, self.history_ = model.to("cpu"), network, preparation, history
        self.n_iter_, self.n_features_in_ = len(history), len(preparation.mean)

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _report(self, row: dict[str, float]) -> None:
        if self.watch is not None:
            self.watch(row)
        if self.verbose:
            losses = ", ".join(f"{name} loss {row[name]:.4g}" for name in ("training", "validation") if name in row)
            print(f"epoch {row['epoch']:.0f} of {self.epochs}: {losses}", flush=True)

    def _outputs(self, sequences: list[Read], every: bool = False) -> NDArray[np.float64]:
        data = self.preparation_(sequences)
        return predicted(self.model_, data, every, device_of(self.device))

    def _stream(self, finish: Callable[[NDArray, Stream], Any]) -> PredictionStream:
        check_is_fitted(self, "model_")
        model: SequenceModel = self.model_
        return PredictionStream(
            open_stream(model.layer, model.head, self.preparation_.scaling), self.preparation_, finish
        )


def check_settings(settings: Estimator) -> None:
    for name in ("hidden_size", "num_layers", "epochs", "batch_size", "patience"):
        value = getattr(settings, name)
        if name == "batch_size" and value is None:
            continue
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number above 0, got {value!r}")
    if settings.validation_share is not None and not 0 <= settings.validation_share < 1:
        raise ValueError(f"validation_share must be 0 or more and below 1, got {settings.validation_share!r}")
    if not settings.learning_rate > 0:
        raise ValueError(f"learning_rate must be above 0, got {settings.learning_rate!r}")


def parts(size: int, share: float | None, held_out: HeldOut, seed: int) -> tuple[Tensor, Tensor]:
    """The rows to train on and those to validate on, of `size`."""
    if share is None:
        share = VALIDATION_SHARE if size >= FEWEST_FOR_VALIDATION else 0.0
    count = round(share * size)
    validation = held_out(count, generator(seed, "validation")) if count else torch.empty(0, dtype=torch.int64)
    training = torch.tensor(sorted(set(range(size)) - set(validation.tolist())), dtype=torch.int64)
    return training, validation


def usual_batch(size: int) -> int:
    """Sequences a step, where `size` are trained on."""
    return max(1, min(LARGEST_BATCH, size // 8))


def _uneven(sequences: list[Read]) -> bool:
    """Whether there are times, and the gaps between them differ by more than rounding."""
    if sequences[0].gaps is None:
        return False
    gaps = np.concatenate([np.asarray(sequence.gaps)[1:] for sequence in sequences])
    return len(gaps) > 0 and not np.allclose(gaps, np.median(gaps), rtol=1e-3, atol=0)


def drawn(size: int) -> HeldOut:
    """Validation rows at random, of `size`."""
    return lambda count, random: torch.randperm(size, generator=random)[:count]
