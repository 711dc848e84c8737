"""The ODE that the recurrence discretises (eq:ode), and the ODE of its gradients (eq:ngd1)."""

from collections.abc import Callable

import numpy as np

from cornn.theory._network import Network

__all__ = ["flow"]

Input = Callable[[float], np.ndarray]
Flow = Callable[[float, np.ndarray], np.ndarray]


def flow(network: Network, input: Input, theta: tuple[str, int, int] | tuple[str, int] | None = None) -> Flow:
    """Return the right side of y' = z, z' = tanh(W y + W_z z + V u + b) - gamma y - epsilon z, for an ODE solver.

    Args:
        network: The network, with tanh.
        input: Function from a time to the input u, (input).
        theta: Entry to differentiate with respect to: ("W", i, j), ("W_z", i, j), ("V", i, j) or ("b", i).

    Returns:
        A function from time and state to the derivative of the state. The state is (y, z), (2 hidden), or with `theta`
        (y, z, y_theta, z_theta), (4 hidden).

    Raises:
        ValueError: If the activation is not tanh.
    """
    if network.activation != "tanh":
        raise ValueError(f"the paper's ODE needs the activation tanh, this network has {network.activation}")
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
