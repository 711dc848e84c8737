"""The paper's rivals as layers with the contract of `nn.LSTM`; those of one product a step run on the engine."""

from cornn.baselines.differential import AntisymmetricRNN, GatedAntisymmetricRNN, LipschitzRNN
from cornn.baselines.fast import FastGRNN, FastRNN, TanhRNN
from cornn.baselines.incremental import IncrementalRNN
from cornn.baselines.lem import LEM
from cornn.baselines.linoss import DLinOSS, LinOSS
from cornn.baselines.orthogonal import DTRIV, ExpRNN
from cornn.baselines.relu_gru import ReLUGRU
from cornn.baselines.shared import Layer
from cornn.baselines.skip import SkipGRU, SkipLSTM
from cornn.baselines.unicornn import UnICORNN
from cornn.baselines.unitary import UnitaryRNN

__all__ = [
    "DTRIV",
    "LAYERS",
    "LEM",
    "AntisymmetricRNN",
    "DLinOSS",
    "ExpRNN",
    "FastGRNN",
    "FastRNN",
    "GatedAntisymmetricRNN",
    "IncrementalRNN",
    "LinOSS",
    "LipschitzRNN",
    "ReLUGRU",
    "SkipGRU",
    "SkipLSTM",
    "TanhRNN",
    "UnICORNN",
    "UnitaryRNN",
]

LAYERS: dict[str, type[Layer]] = {
    "tanh-rnn": TanhRNN,
    "fastrnn": FastRNN,
    "fastgrnn": FastGRNN,
    "antisymmetric": AntisymmetricRNN,
    "gated-antisymmetric": GatedAntisymmetricRNN,
    "exprnn": ExpRNN,
    "dtriv": DTRIV,
    "lipschitz": LipschitzRNN,
    "unitary": UnitaryRNN,
    "incremental": IncrementalRNN,
    "skip-lstm": SkipLSTM,
    "skip-gru": SkipGRU,
    "relu-gru": ReLUGRU,
    "lem": LEM,
    "unicornn": UnICORNN,
    "linoss": LinOSS,
    "d-linoss": DLinOSS,
}
"""Name -> class."""
