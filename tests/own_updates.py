"""Updates of a user, for tests: one state and all functions of an expression, two states, and one without code."""

import torch

from cornn.engine import Code, Update

__all__ = ["OSCILLATOR", "OWN", "PLAIN", "SMOOTH"]


def _smooth(pre, h, gain, shift):
    bent = torch.sin(pre) * torch.cos(h) + torch.exp(-torch.sqrt(1 + pre * pre))
    return gain * torch.where(pre > shift, bent, torch.relu(h) - 0.3 * h) + 0.1 * torch.sign(h) * torch.abs(h)


SMOOTH = Update(
    "smooth",
    {"gain": 0.7, "shift": 0.1},
    _smooth,
    Code(
        where={
            "root": "sqrt(1 + pre * pre)",
            "decay": "exp(-root)",
            "bent": "sin(pre) * cos(h) + decay",
            "rest": "relu(h) - 0.3 * h",
            "open": "select(h > 0, 1, 0)",
            "chosen": "select(pre > shift, bent, rest)",
        },
        step={"h": "gain * chosen + 0.1 * sign(h) * abs(h)"},
        derivative={
            "h": {
                "pre": "gain * select(pre > shift, cos(pre) * cos(h) - decay * pre / root, 0)",
                "h": "gain * select(pre > shift, -sin(pre) * sin(h), open - 0.3) + 0.1",
                "gain": "chosen",
            }
        },
    ),
)
"""Uses every function but tanh and sigmoid; what is kept is the pre-activation, and `shift` has no derivative."""


def _oscillator(pre, x, v, dt, stiffness):
    v = v + dt * (torch.tanh(pre) - stiffness * x)
    return x + dt * v, v


OSCILLATOR = Update(
    "undamped",
    {"dt": 0.1, "stiffness": 2.0},
    _oscillator,
    Code(
        kept={"force": "tanh(pre)"},
        where={"push": "force - stiffness * x", "next": "v + dt * push", "slope": "dt * (1 - force * force)"},
        step={"x": "x + dt * next", "v": "next"},
        derivative={
            "x": {
                "pre": "dt * slope",
                "x": "1 - dt * dt * stiffness",
                "v": "dt",
                "dt": "next + dt * push",
                "stiffness": "-dt * dt * x",
            },
            "v": {"pre": "slope", "x": "-dt * stiffness", "v": "1", "dt": "push", "stiffness": "-dt * x"},
        },
    ),
    state=("x", "v"),
)

PLAIN = Update("plain", {"gain": 0.5}, lambda pre, h, gain: gain * torch.erf(pre) + 0.1 * h)

OWN = {update.name: update for update in (SMOOTH, OSCILLATOR, PLAIN)}
