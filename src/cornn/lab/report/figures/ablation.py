"""Accuracy over a grid of gamma and epsilon."""

import statistics
from collections.abc import Mapping
from typing import Any

from cornn.plots.style import canvas, styled


@styled
def ablation(tests: Mapping[tuple[float, float], list[float]]) -> Any:
    """Draw a heat map of the mean test accuracy; tests: (gamma, epsilon) -> accuracies in percent."""
    gammas, epsilons = (sorted({point[i] for point in tests}) for i in (0, 1))
    means = {point: statistics.fmean(values) for point, values in tests.items()}
    cells = [[means.get((gamma, epsilon), float("nan")) for epsilon in epsilons] for gamma in gammas]
    figure, axes = canvas(size=(5.4, 4.2))
    panel = axes[0, 0]
    image = panel.imshow(cells, origin="lower", cmap="viridis", aspect="auto")
    middle = (min(means.values()) + max(means.values())) / 2
    for (gamma, epsilon), mean in means.items():
        at = {"x": epsilons.index(epsilon), "y": gammas.index(gamma)}
        panel.text(**at, s=f"{mean:.1f}", ha="center", va="center", color="white" if mean < middle else "black")
    panel.set_xticks(range(len(epsilons)), [f"{value:g}" for value in epsilons])
    panel.set_yticks(range(len(gammas)), [f"{value:g}" for value in gammas])
    panel.set(xlabel="epsilon", ylabel="gamma")
    panel.grid(visible=False)
    figure.colorbar(image, ax=panel, label="test accuracy, %")
    return figure
