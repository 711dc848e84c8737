"""The theory as an instrument: what a layer's weights promise, and what the layer does (docs/theory.md).

linear           one oscillator: frequency, damping, exact stability, half-life
energy           how large states and their differences can become
hypotheses       the paper's conditions on the weights
gradients        how fast gradients can grow
small_gain       how fast gradients must fade
ode              the ODE behind the recurrence, and that of its gradients
measure          what a layer does: Jacobians, their products, exponents, gradients by lag
representation   the paper's formula for products of Jacobians, and what it leaves out
claims           the paper's other formulas, as printed
counterexamples  where they fail
register         every statement of the paper, with its verdict
bounds           the bounds that stand, held against a measurement
watch            a few numbers to log during training
suggest          constants for a sequence length
"""

from cornn.theory import (
    bounds,
    claims,
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
