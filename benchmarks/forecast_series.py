"""Series for benchmarks/forecast.py: generated ones of many kinds, and the public ones that aeon ships."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "BenchmarkSeries", "generate", "load_public"]


@dataclass(frozen=True)
class BenchmarkSeries:
    """One series with the horizon it is forecast for."""

    name: str
    kind: str
    values: NDArray[np.float64]  # (time,)
    period: int  # true or customary season; 1: none
    horizon: int


YEARLY_STEP = 3  # every third series of m1_yearly is used

# kind: (season, shortest, longest, horizon)
KINDS = {
    "yearly": (1, 25, 60, 6),
    "quarterly": (4, 40, 120, 8),
    "monthly": (12, 84, 300, 12),
    "weekly": (52, 160, 360, 13),
    "daily": (7, 200, 700, 14),
    "hourly": (24, 400, 900, 48),
    "cycle": (1, 100, 300, 10),
    "random walk": (1, 100, 400, 10),
    "regime change": (12, 120, 240, 12),
    "intermittent": (1, 80, 200, 8),
    "smooth season": (12, 150, 400, 18),
    "nonlinear": (1, 150, 400, 8),
    "temperature": (12, 150, 500, 12),
    "daily and yearly": (365, 1200, 2000, 28),
    "load": (168, 900, 1400, 48),
    "bursts": (1, 120, 300, 10),
}


def generate(kind: str, seed: int) -> BenchmarkSeries:
    """Generate a series.

    Args:
        kind: One of `KINDS`.
        seed: Seed; the same one gives the same series.

    Returns:
        The series.
    """
    period, shortest, longest, horizon = KINDS[kind]
    random = np.random.default_rng([seed, list(KINDS).index(kind)])
    length = int(random.integers(shortest, longest + 1)) + horizon
    make = {
        "cycle": _cycle,
        "random walk": _random_walk,
        "regime change": _regime_change,
        "intermittent": _intermittent,
        "nonlinear": _nonlinear,
        "temperature": _temperature,
        "daily and yearly": _daily_and_yearly,
        "load": _load,
        "bursts": _bursts,
    }.get(kind, _structural)
    return BenchmarkSeries(f"{kind} {seed}", kind, make(random, length, period, kind), period, horizon)


def _structural(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """Level, damped trend, season and autocorrelated noise; combined by a sum or a product."""
    time = np.arange(length)
    noise = random.choice([0.02, 0.05, 0.1, 0.2]) if kind != "smooth season" else 0.01
    drift = random.normal(0, 0.7) / length + random.choice([0, 1]) * random.normal(0, 0.01)
    damping = random.choice([1.0, 1.0, 0.98])
    slope = drift * damping**time + np.cumsum(random.normal(0, 1, length)) * random.choice([0, 0.0005])
    level = np.cumsum(slope + random.normal(0, 1, length) * noise * random.choice([0, 0.1, 0.3, 0.6]))
    season = np.zeros(length)
    if period > 1:
        season += _season(random, time, period, random.uniform(0.5, 4) * max(noise, 0.05), kind)
    if kind == "hourly":
        season += _season(random, time // 24, 7, random.uniform(0.3, 2) * noise, kind)
    rho = random.choice([0, 0, 0.5, 0.8])
    shocks = random.normal(0, noise, length)
    for step in range(1, length):
        shocks[step] += rho * shocks[step - 1]
    if random.random() < 0.15:
        shocks[random.integers(0, length, 2)] += random.normal(0, 6 * noise, 2)
    total = level + season + shocks
    size = 10 ** random.uniform(1, 4)
    if random.random() < 0.6:
        return size * np.exp(total)
    return size * (3 + total)


def _season(random: np.random.Generator, time: NDArray, period: int, size: float, kind: str) -> NDArray[np.float64]:
    """A season: a few harmonics, or one free value per phase; it may change slowly."""
    phase = 2 * np.pi * time / period
    if kind == "smooth season" or random.random() < 0.5:
        wave = sum(
            random.normal() / order * np.cos(order * phase + random.uniform(0, 6.3))
            for order in range(1, 1 + period // 2)
        )
    else:
        wave = random.normal(size=period)[time % period]
    wave = size * wave / max(np.std(wave), 1e-9)
    if kind != "smooth season" and random.random() < 0.3:
        wave = wave * np.exp(np.linspace(0, random.normal(0, 0.5), len(time)))
    return wave


def _cycle(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """A stochastic cycle with a period that is not a whole number of steps."""
    cycle, radius = random.uniform(6, 25), random.uniform(0.9, 0.99)
    values = np.zeros(length + 100)
    for step in range(2, len(values)):
        values[step] = (
            2 * radius * np.cos(2 * np.pi / cycle) * values[step - 1] - radius**2 * values[step - 2] + random.normal()
        )
    values = values[100:] / values.std()
    if random.random() < 0.5:
        return 50 * np.exp(0.8 * values)
    return 50 + 20 * values


def _random_walk(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    steps = random.standard_t(4, length) * 0.02 + random.normal(0, 0.002)
    return 100 * np.exp(np.cumsum(steps))


def _regime_change(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """A season whose level, slope or amplitude jumps once or twice."""
    base = _structural(random, length, period, kind)
    for _ in range(random.integers(1, 3)):
        step = random.integers(length // 4, length)
        if random.random() < 0.5:
            base[step:] += base.std() * random.normal(0, 1.5)
        else:
            base[step:] = base[step] + (base[step:] - base[step]) * random.uniform(0.5, 1.5)
    return base


def _intermittent(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """Counts, most of them zero."""
    rate = np.exp(np.cumsum(random.normal(0, 0.05, length))) * random.uniform(0.2, 2)
    share = random.uniform(0.3, 0.9)
    return np.where(random.random(length) < share, random.poisson(rate), 0).astype(np.float64)


def _nonlinear(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """A driven nonlinear oscillator or a delayed logistic map, with noise."""
    values = np.full(length + 100, 0.5) + 0.01 * random.normal(size=length + 100)
    if random.random() < 0.5:
        rate, delay = random.uniform(0.4, 0.55), int(random.integers(3, 6))
        values = np.abs(values)
        for step in range(delay, len(values)):
            values[step] = values[step - 1] * np.exp(rate * (1 - values[step - delay]) + 0.05 * random.normal())
    else:
        y, z = 0.5, 0.0
        stiffness, drive = random.uniform(0.3, 1.5), random.uniform(0.3, 1.2)
        for step in range(len(values)):
            z += 0.3 * (drive * np.cos(0.37 * step) - stiffness * y - 0.3 * y**3 - 0.2 * z) + 0.03 * random.normal()
            y += 0.3 * z
            values[step] = 3 + y
    return 100 * values[100:]


def _autoregressive(random: np.random.Generator, length: int, rho: float) -> NDArray[np.float64]:
    """Noise of unit variance in which each value keeps a share rho of the one before."""
    values = random.normal(size=length)
    for step in range(1, length):
        values[step] = rho * values[step - 1] + np.sqrt(1 - rho**2) * values[step]
    return values


def _temperature(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """A strong, fixed season with anomalies that persist; values may be negative."""
    season = _season(random, np.arange(length), period, random.uniform(2, 8), "smooth season")
    anomalies = _autoregressive(random, length, random.uniform(0.3, 0.95)) * random.uniform(0.5, 2)
    return random.uniform(-5, 25) + season + anomalies + np.linspace(0, random.normal(0, 1), length)


def _daily_and_yearly(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """Days with a yearly wave, persistent weather and, in half of the series, a weekly pattern."""
    time = np.arange(length)
    values = random.uniform(2, 8) * np.cos(2 * np.pi * time / period + random.uniform(0, 6.3))
    values += random.normal(0, 1) * np.cos(4 * np.pi * time / period)
    values += _autoregressive(random, length, random.uniform(0.4, 0.9)) * random.uniform(1, 3)
    if random.random() < 0.5:
        values += _season(random, time, 7, random.uniform(1, 3), kind)
    return 40 + values


def _load(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """Hours whose daily profile differs between working days and weekends, times a slowly changing level."""
    time = np.arange(length)
    work, rest = (_season(random, time, 24, 0.25, "smooth season") for _ in range(2))
    weekend = (time // 24 + int(random.integers(7))) % 7 >= 5
    profile = np.where(weekend, 0.5 * work + 0.5 * rest - random.uniform(0, 0.3), work)
    level = 0.15 * _autoregressive(random, length, 0.995) + 0.03 * _autoregressive(random, length, 0.8)
    return 10 ** random.uniform(1, 4) * np.exp(profile + level)


def _bursts(random: np.random.Generator, length: int, period: int, kind: str) -> NDArray[np.float64]:
    """Cycles of changing length and height, never negative, that rise faster than they fall."""
    phase = np.cumsum((1 + 0.2 * _autoregressive(random, length, 0.9)) / random.uniform(8, 14)) % 1
    rise = random.uniform(0.25, 0.45)
    wave = np.where(phase < rise, phase / rise, (1 - phase) / (1 - rise))
    height = np.exp(0.4 * _autoregressive(random, length, 0.95))
    return 100 * np.maximum(wave**1.5 * height + 0.05 * random.normal(size=length), 0)


def load_public() -> list[BenchmarkSeries]:
    """Load the series that aeon ships and that this project develops on. Nothing is downloaded."""
    from aeon import datasets

    airline = np.asarray(datasets.load_airline(), np.float64).ravel()
    shampoo = np.asarray(datasets.load_shampoo_sales(), np.float64).ravel()
    pbs = np.asarray(datasets.load_PBS_dataset(), np.float64).ravel()
    changes = np.asarray(datasets.load_uschange(), np.float64)
    longley = np.asarray(datasets.load_longley(), np.float64)
    collected = [
        BenchmarkSeries("Airline", "Airline", airline, 12, 12),
        BenchmarkSeries("ShampooSales", "ShampooSales", shampoo, 1, 4),
        BenchmarkSeries("PBS_dataset", "PBS_dataset", pbs, 1, 6),
    ]
    collected += [BenchmarkSeries(f"Uschange {row}", "Uschange", values, 4, 4) for row, values in enumerate(changes)]
    collected += [BenchmarkSeries(f"Longley {row}", "Longley", values, 1, 2) for row, values in enumerate(longley)]
    yearly, _ = datasets.load_from_tsf_file(f"{datasets.__path__[0]}/data/m1_yearly_dataset/m1_yearly_dataset.tsf")
    for row, values in enumerate(yearly["series_value"][::YEARLY_STEP]):
        collected.append(
            BenchmarkSeries(f"m1_yearly {row * YEARLY_STEP}", "m1_yearly", np.asarray(values, np.float64), 1, 6)
        )
    return collected
