"""Irregular sensor data: samples at uneven times, sensors that drop out, recordings of unequal length.

python examples/irregular_sensors.py

Pumps are made up, each with a pressure and a temperature sensor that report when they please, some pumps' more often
than others'. In a worn pump the pressure swings faster, which shows only if one knows when the samples were taken.
"""

import numpy as np

from cornn.estimators import CoRNNClassifier, Series


def recordings(count: int, seed: int) -> tuple[list[Series], np.ndarray]:
    """One `Series` a pump: values (samples, 2) with NaN where a sensor was silent, and the times in seconds."""
    random = np.random.default_rng(seed)
    worn = random.random(count) < 0.5
    pumps = []
    for number in range(count):
        samples = random.integers(40, 70)
        pace = random.uniform(0.04, 0.2)  # seconds from one sample to the next, on average
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
    print(f"{len(pumps)} pumps to learn from, {len(new_pumps)} to judge by")
    print(f"the first: {len(first.values)} samples, {np.isnan(first.values).mean():.0%} of the values missing,")
    print(f"    {np.diff(first.times).min():.2f} to {np.diff(first.times).max():.2f} s from one sample to the next")

    # Missing values and times need nothing more: NaN is a missing value, and times become factors on dt.
    settings = {"hidden_size": 32, "epochs": 40, "random_state": 0}
    model = CoRNNClassifier(**settings).fit(pumps, states)
    print(f"right with the times:    {model.score(new_pumps, new_states):.0%}")

    # The same values without their times, as if all gaps were alike.
    without = CoRNNClassifier(**settings).fit([pump.values for pump in pumps], states)
    print(f"right without the times: {without.score([pump.values for pump in new_pumps], new_states):.0%}")

    # What counts is a gap beside the usual one, so the unit does not matter, as long as it is that of the training.
    preparation = model.preparation_
    print(f"one dt is {preparation.unit:.3f} s; no gap counts as more than {preparation.longest:.1f} of them")
    chances = model.predict_proba(new_pumps[:3])
    for pump, (sound, worn), truth in zip(new_pumps, chances, new_states, strict=False):
        print(f"a pump with {len(pump.values)} samples: sound {sound:.2f}, worn {worn:.2f}; it is {truth}")

    model.save("pumps.safetensors")
    print("written: pumps.safetensors, for cornn.estimators.load and cornn export")


if __name__ == "__main__":
    main()
