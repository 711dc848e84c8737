"""Streaming: one sample at a time, with the state saved in between.

python examples/streaming.py

The data are synthetic currents of motors. From the moment when a motor jams, its current oscillates. A classifier is
trained on recordings that end at random moments, so that it also sees motors that have not jammed yet. It then predicts
after each sample, as a service or a device would.
"""

import time
from pathlib import Path

import numpy as np

from cornn.estimators import CoRNNClassifier, load

STEPS = 100


def motors(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return currents (count, steps), and the step at which each motor jams; half jam after the recording."""
    jams = random.integers(20, 2 * STEPS - 20, count)
    since = np.arange(STEPS) - jams[:, None]
    return 2 + 0.2 * random.normal(size=(count, STEPS)) + np.where(since >= 0, 0.5 * np.sin(1.2 * since), 0), jams


def cut(currents: np.ndarray, jams: np.ndarray, random: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut the recordings at random moments; return them, and whether the motor had jammed by then."""
    ends = random.integers(10, STEPS + 1, len(currents))
    return [current[:end] for current, end in zip(currents, ends, strict=True)], ends > jams + 5


def main() -> None:
    random = np.random.default_rng(0)
    model = CoRNNClassifier(method="network", hidden_size=32, epochs=30, class_weight="balanced", random_state=0)
    model.fit(*cut(*motors(600, random), random))
    new, jams = motors(200, random)
    print(f"accuracy on new recordings: {model.score(*cut(new, jams, random)):.0%}")
    model.save("motor.safetensors")

    # Stream one motor. After n samples the prediction equals that of the batch for these n samples.
    number = int(np.argmin(abs(jams - 45)))
    motor = new[number]
    stream = model.stream("predict_proba")
    print(f"this motor jams at sample {jams[number]}")
    for number, current in enumerate(motor[:70], 1):
        chance = stream(current)[1]
        if number % 10 == 0:
            print(f"after {number:3} samples: probability of a jam {chance:.2f}")

    # Stop the service: only the state has to be saved.
    Path("motor.state").write_bytes(stream.to_bytes())
    print(f"state saved: {Path('motor.state').stat().st_size} bytes")

    # Resume in another process, with the same model and the same state.
    again = load("motor.safetensors").stream("predict_proba")
    again.restore(Path("motor.state").read_bytes())
    for current in motor[70:]:
        chance = again(current)[1]
    print(f"after {STEPS} samples: probability of a jam {chance:.2f}")
    whole = model.predict_proba(motor[None])[0, 1]
    assert abs(chance - whole) < 1e-5, "a stream gives what the batch gives"
    print(f"the whole recording in one batch: {whole:.2f}")

    begin = time.perf_counter()
    for current in new.ravel():
        stream(current)
    print(f"{(time.perf_counter() - begin) / new.size * 1e6:.1f} µs per sample, backend {stream.stream.backend}")


if __name__ == "__main__":
    main()
