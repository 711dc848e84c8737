"""Irregular sensor data: samples at uneven times, sensors that drop out, recordings of unequal length.

python examples/irregular_sensors.py

The data are synthetic pumps, each with a pressure and a temperature sensor that report at irregular times, for some
pumps more often than for others. In a worn pump the pressure oscillates faster, which only the sample times
reveal.
"""

import numpy as np

from cornn.estimators import CoRNNClassifier, Series


def recordings(count: int, seed: int) -> tuple[list[Series], np.ndarray]:
    """Return one `Series` per pump: values (samples, 2), NaN where a sensor dropped out, and times in seconds."""
    random = np.random.default_rng(seed)
    worn = random.random(count) < 0.5
    pumps = []
    for number in range(count):
        samples = random.integers(40, 70)
        pace = random.uniform(0.04, 0.2)  # mean seconds between samples
        times = np.cumsum(random.uniform(0.5, 1.5, samples) * pace)
        swing = np.sin(2 * np.pi * (1.0 if worn[number] else 0.5) * times + random.uniform(0, 2 * np.pi))
        pressure = 5 + 0.4 * swing + 0.1 * random.normal(size=samples)
        temperature = 60 + random.normal(size=samples)
        values = np.stack([pressure, temperature], 1)
        values[random.random(values.shape) < 0.15] = np.nan
        pumps.append(Series(values, times))
    return pumps, np.where(worn, "worn", "sound")


def main() -> None:
    pumps, states = recordings(300, seed=0)
    new_pumps, new_states = recordings(200, seed=1)
    first = pumps[0]
    print(f"{len(pumps)} pumps for training, {len(new_pumps)} for the test")
    print(f"the first: {len(first.values)} samples, {np.isnan(first.values).mean():.0%} of the values missing,")
    print(f"    {np.diff(first.times).min():.2f} to {np.diff(first.times).max():.2f} s between samples")

    # NaN marks missing values, and times become durations; nothing else is needed.
    settings = {"random_state": 0}
    model = CoRNNClassifier(**settings).fit(pumps, states)
    print(f"accuracy with times:    {model.score(new_pumps, new_states):.0%}")

    # The same values without their times, as if all gaps were equal.
    without = CoRNNClassifier(**settings).fit([pump.values for pump in pumps], states)
    print(f"accuracy without times: {without.score([pump.values for pump in new_pumps], new_states):.0%}")

    # Gaps are relative to the median gap, so any unit works, as long as training and prediction use the same.
    print(f"one step is {model.bank_.bank.inputs.unit:.3f} s; any other span is exact")
    chances = model.predict_proba(new_pumps[:3])
    for pump, (sound, worn), truth in zip(new_pumps, chances, new_states, strict=False):
        print(f"a pump with {len(pump.values)} samples: sound {sound:.2f}, worn {worn:.2f}; true: {truth}")

    model.save("pumps.safetensors")
    print("wrote pumps.safetensors, for cornn.estimators.load and cornn export")


if __name__ == "__main__":
    main()
