"""How far apart two results may be that ought to be equal; keyword arguments of `torch.testing.assert_close`.

`from tolerances import ...` works in every test file of this folder. Where nothing is rounded, tests ask for equality.
"""

# Two orders of the same sums in float64: a few hundred roundings of 1e-16, with room for gradients that cancel.
FLOAT64 = {"rtol": 1e-9, "atol": 1e-12}

# The same in float32, where a rounding is 6e-8 and short sequences of small networks add up to some hundred of them.
FLOAT32 = {"rtol": 2e-5, "atol": 2e-6}

# bfloat16 keeps 8 bits: one rounding is 4e-3, and an LSTM under autocast rounds at every step.
BFLOAT16 = {"rtol": 3e-2, "atol": 2e-2}

# Central differences of step 1e-5 in float64: 1e-10 from the curvature, 1e-11 from rounding.
FINITE_DIFFERENCES = {"rtol": 1e-6, "atol": 1e-9}
