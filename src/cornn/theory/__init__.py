"""The theory of coupled oscillators as checks on a layer (docs/theory.md).

linear           one oscillator: frequency, damping, exact stability, half-life, impulse response
energy           bounds on states and on their differences
hypotheses       the paper's conditions on the weights
gradients        bounds on the growth of gradients
small_gain       bounds on the decay of gradients
ode              the ODE that the recurrence discretises, and the ODE of its gradients
measure          simulation: Jacobians, their products, Lyapunov exponents, gradients by lag
representation   the paper's formula for products of Jacobians, and its remainder
claims           the paper's other formulas, as printed
counterexamples  networks for which they fail
register         every claim of the paper, with its verdict
bounds           the proven bounds, and their comparison with a measurement
diagnose         all of this for one layer, as `cornn check` prints it
watch            a few numbers to log during training
suggest          constants for a sequence length
"""

from cornn.theory import (
    bounds,
    claims,
    diagnose,
    energy,
    gradients,
    hypotheses,
    linear,
    measure,
    register,
    representation,
    small_gain,
)
from cornn.theory.linear import (
    effective_rank,
    half_life,
    log_spaced,
    period,
    shortest_half_life,
    stiffness_from_half_life,
    stiffness_from_period,
)
from cornn.theory.network import Network, network, network_from_layer
from cornn.theory.suggest import Suggestion, suggest
from cornn.theory.watch import watch

__all__ = [
    "Network",
    "Suggestion",
    "bounds",
    "claims",
    "diagnose",
    "effective_rank",
    "energy",
    "gradients",
    "half_life",
    "hypotheses",
    "linear",
    "log_spaced",
    "measure",
    "network",
    "network_from_layer",
    "period",
    "register",
    "representation",
    "shortest_half_life",
    "small_gain",
    "stiffness_from_half_life",
    "stiffness_from_period",
    "suggest",
    "watch",
]
