"""Streaming: one sample at a time, with the state saved in between.

python examples/streaming.py

A motor's current is made up. At some moment it may jam: from then on the current ripples. A classifier learns from
recordings that end at any moment, so that it knows motors which have not jammed yet. Then it watches one sample by
sample, as a service or a device would, and says after each what it thinks.
"""

import time
from pathlib import Path

import numpy as np

from cornn.estimators import CoRNNClassifier, load

STEPS = 100


def motors(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Currents (count, steps), and the step at which each motor jams; half of them run longer than is recorded."""
    jams = random.integers(20, 2 * STEPS - 20, count)
    since = np.arange(STEPS) - jams[:, None]
    return 2 + 0.2 * random.normal(size=(count, STEPS)) + np.where(since >= 0, 0.5 * np.sin(1.2 * since), 0), jams


def cut(currents: np.ndarray, jams: np.ndarray, random: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """The recordings as they stood at a random moment, and whether the motor had jammed by then."""
    ends = random.integers(10, STEPS + 1, len(currents))
    return [current[:end] for current, end in zip(currents, ends, strict=True)], ends > jams + 5


def main() -> None:
    random = np.random.default_rng(0)
    model = CoRNNClassifier(hidden_size=32, epochs=30, class_weight="balanced", random_state=0)
    model.fit(*cut(*motors(600, random), random))
    new, jams = motors(200, random)
    print(f"right on new recordings: {model.score(*cut(new, jams, random)):.0%}")
    model.save("motor.safetensors")

    # A motor that jams, sample by sample. The answer after n samples is that of the batch for those n.
    number = int(np.argmin(abs(jams - 45)))
    motor = new[number]
    stream = model.stream("predict_proba")
    print(f"this motor jams at sample {jams[number]}")
    for number, current in enumerate(motor[:70], 1):
        chance = stream(current)[1]
        if number % 10 == 0:
            print(f"after {number:3} samples: jammed with a chance of {chance:.2f}")

    # The service is stopped. All that it has to keep is the state.
    Path("motor.state").write_bytes(stream.to_bytes())
    print(f"state saved: {Path('motor.state').stat().st_size} bytes")

    # Another process, later: the same model, the same state, and on it goes.
    again = load("motor.safetensors").stream("predict_proba")
    again.restore(Path("motor.state").read_bytes())
    for current in motor[70:]:
        chance = again(current)[1]
    print(f"after {STEPS} samples: jammed with a chance of {chance:.2f}")
    whole = model.predict_proba(motor[None])[0, 1]
    assert abs(chance - whole) < 1e-5, "a stream gives what the batch gives"
    print(f"the whole recording at once: {whole:.2f}")

    begin = time.perf_counter()
    for current in new.ravel():
        stream(current)
    print(f"{(time.perf_counter() - begin) / new.size * 1e6:.1f} µs a sample, by {stream.stream.backend}")


if __name__ == "__main__":
    main()
