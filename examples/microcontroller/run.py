"""Gestures on a microcontroller: train a model in seconds, export it to C, compile and run it.

python examples/microcontroller/run.py [FOLDER]

The data are synthetic windows of 64 samples of an accelerometer, in g at 50 Hz: a lift, a push, or rest. The C code,
with float32 and with int8 weights, is written to FOLDER. main.c, next to this file, is the program of the device. If
arm-none-eabi-gcc and qemu-system-arm are installed, the model also runs on an emulated Cortex-M4.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

from cornn.estimators import CoRNNClassifier
from cornn.export.c import COptions, cortex, host, to_c

HERE = Path(__file__).resolve().parent
SAMPLES, RATE = 64, 50


def windows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return windows (count, samples, 3) in g, and their classes. A gesture is a push and, 0.2 s later, a brake."""
    random = np.random.default_rng(seed)
    kinds = random.choice(["lift", "push", "rest"], count)
    time = np.arange(SAMPLES) / RATE - random.uniform(0.2, 0.8, (count, 1))
    gesture = np.exp(-((time / 0.06) ** 2)) - np.exp(-(((time - 0.2) / 0.06) ** 2))
    signal = np.array([0.0, 0.0, 1.0]) + 0.05 * random.normal(size=(count, SAMPLES, 3))
    strength = random.uniform(0.4, 0.8, (count, 1))
    for kind, axis in (("lift", 2), ("push", 0)):
        signal[kinds == kind, :, axis] += (strength * gesture)[kinds == kind]
    return signal, kinds


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "microcontroller")
    X, y = windows(400, seed=0)
    model = CoRNNClassifier(method="network", hidden_size=16, epochs=25, random_state=0).fit(X, y)
    new, kinds = windows(300, seed=1)
    print(f"accuracy on new windows: {100 * model.score(new, kinds):.1f} %")
    for weights in ("float32", "int8"):
        written = to_c(model, folder / weights, COptions(weights=weights), data=new)
        print("\n".join(["", *written.lines()]))
    print()
    if host.find_compiler() is not None:
        program = folder / "device"
        sources = [HERE / "main.c", folder / "int8" / "model.c"]
        command = [host.find_compiler(), "-std=c99", "-O2", f"-I{folder / 'int8'}", *sources, "-o", program]
        subprocess.run([str(word) for word in command], check=True)
        samples = "\n".join(" ".join(f"{value:.4f}" for value in sample) for sample in new[0])
        print(f"the program, on a window of {kinds[0]}:")
        print(subprocess.run([str(program)], input=samples, capture_output=True, text=True, check=True).stdout)
    if cortex.missing_tools():
        print(f"not run on a Cortex-M4: {', '.join(cortex.missing_tools())} not found")
        return
    for weights in ("float32", "int8"):
        given = [window.astype(np.float32) for window in new[:20]]
        found = cortex.measure(folder / weights, given, len(model.classes_))
        same = (model.classes_[found.answers.argmax(1)] == model.predict(new[:20])).sum()
        print(
            f"on an emulated Cortex-M4, {weights}: {found.flash:,} bytes of flash, {found.stack} bytes of stack, "
            f"{found.instructions:,.0f} instructions per step, {same} of 20 answers as PyTorch's"
        )


if __name__ == "__main__":
    main()
