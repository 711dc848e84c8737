"""Find the season of a series."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["detect_periods"]

CUSTOMARY = (4, 6, 7, 12, 13, 24, 26, 30, 48, 52, 60, 96, 144, 168, 288, 336, 365, 1440)
MIN_STRENGTH = 0.03  # share of the variance of the differences that the season must explain out of sample
DEVIATIONS = 4.0  # of that share for noise, which must be added to it
TOLERANCE = 0.04  # that a customary or a shorter period may miss of the best strength
HINTED_DEVIATIONS = 1.5
HINTED_TOLERANCE = 0.15
CYCLES = 3  # complete seasons that are needed to detect one
MAX_PERIODS = 2


def detect_periods(values: NDArray[np.float64], hints: Sequence[int] = ()) -> list[int]:
    """Detect the seasons of a series, the shorter one first.

    A season is a mean per phase that predicts later differences of the series. Candidates are the peaks of the
    autocorrelation of the differences; each is judged by how much of the variance of the second half is predicted by
    the phase means of all other complete seasons.

    Args:
        values: The series, shape (time,), without missing values.
        hints: Periods that the times of the samples suggest, such as 12 for months: less evidence is enough for them.

    Returns:
        At most two periods, each at least 2; empty if there is no season.

    Examples:
        >>> detect_periods(np.tile([1.0, 5.0, 2.0, 4.0], 10))
        [4]
    """
    length = len(values)
    limit = length // CYCLES
    if limit < 2:
        return []
    changes = _clip_outliers(np.diff(values))
    if not changes.any():
        return []
    periods: list[int] = []
    for _ in range(MAX_PERIODS):
        best = _find_strongest(changes, limit, periods, hints)
        if best is None:
            break
        periods.append(best)
        changes = changes - _phase_means(changes, best)
    return sorted(periods)


def _clip_outliers(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre the changes and clip outliers."""
    centred = changes - np.median(changes)
    spread = np.median(np.abs(centred))
    if spread == 0:
        spread = np.abs(centred).mean()
    # Wide enough to keep the peaks of a spiky season.
    return np.clip(centred, -10 * spread, 10 * spread)


def _find_strongest(changes: NDArray[np.float64], limit: int, before: list[int], hints: Sequence[int]) -> int | None:
    """Return the period with the strongest season, or None."""
    candidates = _find_peaks(changes, limit)
    candidates |= {period for period in (*CUSTOMARY, *hints) if 1 < period <= limit}
    # A multiple of a season that is already removed is another season, a divisor is not.
    candidates = {candidate for candidate in candidates if not any(other % candidate == 0 for other in before)}
    if before:
        candidates = {
            candidate for candidate in candidates if candidate in (*CUSTOMARY, *hints) and candidate % before[0] == 0
        }
    strengths = {
        candidate: _measure_strength(
            changes, candidate, {1, max(1, candidate // 4)}, HINTED_DEVIATIONS if candidate in hints else DEVIATIONS
        )
        for candidate in sorted(candidates)
    }
    strengths = {candidate: strength for candidate, strength in strengths.items() if strength is not None}
    if not strengths:
        return None
    best = max(share for share, _ in strengths.values())
    # Customary periods first; and the shortest divisor that is nearly as strong, as multiples of a period are too.
    near = [candidate for candidate, (share, _) in strengths.items() if share >= best - TOLERANCE]
    hinted = [
        candidate
        for candidate, (share, _) in strengths.items()
        if candidate in hints and share >= best - HINTED_TOLERANCE
    ]
    chosen = min(hinted or [candidate for candidate in near if candidate in CUSTOMARY] or near)
    share, width = strengths[chosen]
    for candidate in range(2, chosen) if chosen not in hints else ():
        if chosen % candidate == 0 and not any(other % candidate == 0 for other in before):
            shorter = _measure_strength(changes, candidate, {width}, DEVIATIONS)
            if shorter is not None and shorter[0] >= share - TOLERANCE:
                return candidate
    return chosen


def _find_peaks(changes: NDArray[np.float64], limit: int) -> set[int]:
    """Return the lags of the local maxima of the autocorrelation."""
    size = 1 << (2 * len(changes) - 1).bit_length()
    power = np.abs(np.fft.rfft(changes, size)) ** 2
    correlation = np.fft.irfft(power)[: limit + 2]
    correlation = correlation / np.maximum(len(changes) - np.arange(len(correlation)), 1)
    inner = correlation[1:-1]
    peak = (inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > 0)
    lags = 1 + np.flatnonzero(peak)
    lags = lags[(lags >= 2) & (lags <= limit)]
    return set(lags[np.argsort(-correlation[lags])][:12].tolist())


def _phase_means(changes: NDArray[np.float64], period: int) -> NDArray[np.float64]:
    phase = np.arange(len(changes)) % period
    counts = np.bincount(phase, minlength=period)
    return (np.bincount(phase, changes, period) / counts)[phase]


def _measure_strength(
    changes: NDArray[np.float64], period: int, widths: set[int], deviations: float
) -> tuple[float, int] | None:
    """Return the strength of a season and the width of the changes that show it, or None if noise could be as strong.

    The strength is the share of the variance that the phase means of the other seasons predict, leaving one out. Slow
    seasons hardly show in the noise of single steps, so that wider changes are looked at too.
    """
    results = []
    for width in sorted(widths):
        sums = np.cumsum(np.concatenate([[0.0], changes]))
        means = sums[width:] - sums[:-width]
        means = means - means.mean()
        phase = np.arange(len(means)) % period
        counts = np.bincount(phase, minlength=period)[phase]
        total = np.square(means).sum()
        if counts.min() < 2 or not total:
            continue
        others = (np.bincount(phase, means, period)[phase] - means) / (counts - 1)
        share = 1 - np.square(means - others).sum() / total
        if share >= MIN_STRENGTH + deviations * np.sqrt(2 * period * width) / len(means):
            results.append((float(share), width))
    return max(results, default=None)
