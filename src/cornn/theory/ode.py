"""The ODE behind the recurrence (eq:ode), and the ODE that its gradients obey (eq:ngd1)."""

from collections.abc import Callable

import numpy as np

from cornn.theory.network import Network

__all__ = ["flow"]

Input = Callable[[float], np.ndarray]
Flow = Callable[[float, np.ndarray], np.ndarray]


def flow(network: Network, input: Input, theta: tuple[str, int, int] | tuple[str, int] | None = None) -> Flow:
    """The right side of y' = z, z' = tanh(W y + W_z z + V u + b) - gamma y - epsilon z, as ODE solvers take it.

    input: u at a time, (input).
    theta: an entry to differentiate for: ("W", i, j), ("W_z", i, j), ("V", i, j) or ("b", i). The state is then (y, z,
        y_theta, z_theta) in one row, (4 hidden), else (y, z), (2 hidden).
    """
    if network.activation != "tanh":
        raise ValueError(f"the paper's ODE is of tanh, this network has {network.activation}")
    V, W, W_z, b = (value.numpy() for value in (network.V, network.W, network.W_z, network.b))
    gamma, epsilon, m = network.gamma.numpy(), network.epsilon.numpy(), network.hidden_size

    def change(time: float, state: np.ndarray) -> np.ndarray:
        y, z = state[:m], state[m : 2 * m]
        u = input(time)
        force = np.tanh(W @ y + W_z @ z + V @ u + b)
        moved = np.concatenate((z, force - gamma * y - epsilon * z))
        if theta is None:
            return moved
        y_theta, z_theta = state[2 * m : 3 * m], state[3 * m :]
        name, row, *column = theta
        forcing = np.zeros(m)
        forcing[row] = {"W": y, "W_z": z, "V": u}[name][column[0]] if column else 1.0
        pulled = (1 - force**2) * (W @ y_theta + W_z @ z_theta + forcing) - gamma * y_theta - epsilon * z_theta
        return np.concatenate((moved, z_theta, pulled))

    return change
