"""The published results: the paper's tables, later papers, and the authors' logs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A result in one of the paper's tables. The results of other models come from other papers."""

    table: str
    model: str
    units: int
    parameters: int  # as printed, rounded to thousands; for some other models it is the number for another input size
    value: float  # accuracy in percent, the best of several runs; for Lorenz-96 the NRMSE
    force: float | None = None  # of Lorenz-96
    mean: float | None = None  # of ten runs, from tab:distr_results
    deviation: float | None = None

    @property
    def case(self) -> str:
        """The case of the task, where there are several."""
        return "" if self.force is None else f"F = {self.force:g}"


@dataclass(frozen=True)
class Elsewhere:
    """An accuracy in percent that a later paper reports for its own model."""

    model: str
    value: float
    source: str


PUBLISHED = {
    "smnist": (
        Published("tab:mnist", "uRNN", 512, 9_000, 95.1),
        Published("tab:mnist", "LSTM", 256, 270_000, 98.9),
        Published("tab:mnist", "GRU", 256, 200_000, 99.1),
        Published("tab:mnist", "antisymmetric RNN", 128, 10_000, 98.0),
        Published("tab:mnist", "DTRIV∞", 512, 137_000, 99.0),
        Published("tab:mnist", "FastGRNN", 128, 18_000, 98.7),
        Published("tab:mnist", "coRNN", 128, 34_000, 99.3),
        Published("tab:mnist", "coRNN", 256, 134_000, 99.4, mean=99.17, deviation=0.07),
    ),
    "psmnist": (
        Published("tab:mnist", "uRNN", 512, 9_000, 91.4),
        Published("tab:mnist", "LSTM", 256, 270_000, 92.9),
        Published("tab:mnist", "GRU", 256, 200_000, 94.1),
        Published("tab:mnist", "antisymmetric RNN", 128, 10_000, 95.8),
        Published("tab:mnist", "DTRIV∞", 512, 137_000, 96.8),
        Published("tab:mnist", "FastGRNN", 128, 18_000, 94.8),
        Published("tab:mnist", "coRNN", 128, 34_000, 96.6),
        Published("tab:mnist", "coRNN", 256, 134_000, 97.3, mean=96.10, deviation=1.20),
    ),
    "noisy-cifar10": (
        Published("tab:cifar", "LSTM", 128, 64_000, 11.6),
        Published("tab:cifar", "incremental RNN", 128, 12_000, 54.5),
        Published("tab:cifar", "FastRNN", 128, 16_000, 45.8),
        Published("tab:cifar", "antisymmetric RNN", 256, 36_000, 48.3),
        Published("tab:cifar", "gated antisymmetric RNN", 256, 37_000, 54.7),
        Published("tab:cifar", "Lipschitz RNN", 256, 134_000, 55.2),
        Published("tab:cifar", "coRNN", 128, 46_000, 59.0, mean=58.56, deviation=0.35),
    ),
    "har2": (
        Published("tab:har2", "GRU", 75, 19_000, 93.6),
        Published("tab:har2", "LSTM", 64, 16_000, 93.7),
        Published("tab:har2", "FastRNN", 80, 7_000, 94.5),
        Published("tab:har2", "FastGRNN", 80, 7_000, 95.6),
        Published("tab:har2", "antisymmetric RNN", 120, 8_000, 93.2),
        Published("tab:har2", "incremental RNN", 64, 4_000, 96.3),
        Published("tab:har2", "coRNN", 64, 9_000, 97.2, mean=96.01, deviation=0.53),
        Published("tab:har2", "coRNN", 20, 1_000, 96.5),
    ),
    "imdb": (
        Published("tab:imdb", "LSTM", 128, 220_000, 86.8),
        Published("tab:imdb", "skip LSTM", 128, 220_000, 86.6),
        Published("tab:imdb", "GRU", 128, 164_000, 86.2),
        Published("tab:imdb", "skip GRU", 128, 164_000, 86.6),
        Published("tab:imdb", "ReLU GRU", 128, 99_000, 84.8),
        Published("tab:imdb", "coRNN", 128, 46_000, 87.4, mean=86.65, deviation=0.31),
    ),
    "lorenz96": (
        Published("tab:lorenz", "LSTM", 44, 9_000, 2.0e-2, force=0.9),
        Published("tab:lorenz", "coRNN", 64, 9_000, 2.0e-2, force=0.9),
        Published("tab:lorenz", "LSTM", 44, 9_000, 6.8e-2, force=8.0),
        Published("tab:lorenz", "coRNN", 64, 9_000, 9.8e-2, force=8.0),
    ),
}
"""Task -> the results in the paper's tables."""

ELSEWHERE = {
    "psmnist": (Elsewhere("LEM", 96.6, "Rusch et al. 2022"),),
    "noisy-cifar10": (
        Elsewhere("Lipschitz RNN", 59.0, "Erichson et al. 2021"),
        Elsewhere("LEM", 60.5, "Rusch et al. 2022"),
    ),
}
"""Task -> results that are not in the paper's tables."""

LOGS = {
    ("smnist", 256): {1: 52.2, 10: 94.4, 100: 99.1},
    ("psmnist", 256): {1: 10.3, 10: 87.7, 100: 95.1},
}
"""Task, neurons -> epoch -> validation accuracy of one run, from the logs that the authors published."""
