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

Functions of this package, which use these modules:

diagnose         all of this for one layer, as `cornn check` prints it
watch            a few numbers to log during training
suggest          constants for a sequence length
network          the weights and constants of a layer, which all functions take
"""

from cornn.theory import (
    bounds,
    claims,
    counterexamples,
    energy,
    gradients,
    hypotheses,
    linear,
    measure,
    ode,
    register,
    representation,
    small_gain,
)
from cornn.theory._diagnose import Diagnosis, Fact, Subject, diagnose, subject_from_constants, subject_from_layer
from cornn.theory._network import Network, network, network_from_layer
from cornn.theory._suggest import Suggestion, suggest
from cornn.theory._watch import watch
from cornn.theory.linear import (
    effective_rank,
    half_life,
    log_spaced,
    period,
    shortest_half_life,
    stiffness_from_half_life,
    stiffness_from_period,
)

__all__ = [
    "Diagnosis",
    "Fact",
    "Network",
    "Subject",
    "Suggestion",
    "bounds",
    "claims",
    "counterexamples",
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
    "ode",
    "period",
    "register",
    "representation",
    "shortest_half_life",
    "small_gain",
    "stiffness_from_half_life",
    "stiffness_from_period",
    "subject_from_constants",
    "subject_from_layer",
    "suggest",
    "watch",
]
