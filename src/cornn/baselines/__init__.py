"""The rivals of coRNN, and `CustomRNN` for updates of your own, as layers with the interface of `nn.LSTM`.

`MODELS` is the table of model names.
"""

from dataclasses import dataclass

from torch import nn

from cornn.baselines.custom import CustomRNN
from cornn.baselines.differential import AntisymmetricRNN, GatedAntisymmetricRNN, LipschitzRNN
from cornn.baselines.fastrnn import FastGRNN, FastRNN, TanhRNN
from cornn.baselines.horn import HORN
from cornn.baselines.incremental import IncrementalRNN
from cornn.baselines.layer import Layer
from cornn.baselines.lem import LEM
from cornn.baselines.linoss import DLinOSS, LinOSS
from cornn.baselines.orthogonal import DTRIV, ExpRNN
from cornn.baselines.relu_gru import ReLUGRU
from cornn.baselines.skip import SkipGRU, SkipLSTM
from cornn.baselines.unicornn import UnICORNN
from cornn.baselines.unitary import UnitaryRNN
from cornn.layers import CoRNN

__all__ = [
    "DTRIV",
    "HORN",
    "LAYERS",
    "LEM",
    "MODELS",
    "AntisymmetricRNN",
    "CustomRNN",
    "DLinOSS",
    "ExpRNN",
    "FastGRNN",
    "FastRNN",
    "GatedAntisymmetricRNN",
    "IncrementalRNN",
    "LinOSS",
    "LipschitzRNN",
    "Model",
    "ReLUGRU",
    "SkipGRU",
    "SkipLSTM",
    "TanhRNN",
    "UnICORNN",
    "UnitaryRNN",
]


@dataclass(frozen=True)
class Model:
    """A recurrent layer and its display name, as the paper's tables or its own paper print it."""

    title: str
    layer: type[Layer | CoRNN | nn.RNNBase]


MODELS = {
    "cornn": Model("coRNN", CoRNN),
    "lstm": Model("LSTM", nn.LSTM),
    "gru": Model("GRU", nn.GRU),
    "rnn": Model("nn.RNN", nn.RNN),
    "tanh-rnn": Model("tanh RNN", TanhRNN),
    "fastrnn": Model("FastRNN", FastRNN),
    "fastgrnn": Model("FastGRNN", FastGRNN),
    "antisymmetric": Model("antisymmetric RNN", AntisymmetricRNN),
    "gated-antisymmetric": Model("gated antisymmetric RNN", GatedAntisymmetricRNN),
    "exprnn": Model("expRNN", ExpRNN),
    "dtriv": Model("DTRIV∞", DTRIV),
    "lipschitz": Model("Lipschitz RNN", LipschitzRNN),
    "unitary": Model("uRNN", UnitaryRNN),
    "incremental": Model("incremental RNN", IncrementalRNN),
    "skip-lstm": Model("skip LSTM", SkipLSTM),
    "skip-gru": Model("skip GRU", SkipGRU),
    "relu-gru": Model("ReLU GRU", ReLUGRU),
    "lem": Model("LEM", LEM),
    "unicornn": Model("UnICORNN", UnICORNN),
    "linoss": Model("LinOSS", LinOSS),
    "d-linoss": Model("D-LinOSS", DLinOSS),
    "horn": Model("HORN", HORN),
    "custom": Model("custom update", CustomRNN),
}
"""Name -> model. `rnn` is PyTorch's tanh RNN, `tanh-rnn` the same network on our engine."""

LAYERS: dict[str, type[Layer]] = {name: model.layer for name, model in MODELS.items() if issubclass(model.layer, Layer)}
"""Name -> class of the rivals that are implemented here."""
