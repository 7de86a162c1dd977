"""How few steps a gate takes; what it computes is tested with the gate."""

from __future__ import annotations

import pytest
import torch

from equigeo.nn import Gate

SILU, TANH = torch.nn.functional.silu, torch.tanh


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize(
    ("problem", "functions", "products"),
    [
        # As NequIP has it: gates lie beside the even scalars, and go through the same function.
        (("8x0e+8x0o", [SILU, TANH], "32x0e", [SILU], "8x1o+8x1e+8x2o+8x2e"), 2, 2),
        (("8x0e", [SILU], "16x0e", [torch.sigmoid], "8x1o+8x1e"), 2, 1),
        (("8x0e", [None], "8x0e", [None], "8x0o"), 1, 1),
        (("2x0e+3x0e", [SILU, SILU], "", [], ""), 1, 0),
        # A gate that flips the parity cuts a term, and lies elsewhere.
        (("4x0e", [SILU], "2x0e+2x0o", [SILU, TANH], "4x1o"), 2, 2),
        (("", [], "", [], ""), 0, 0),
    ],
)
def test_neighbours_go_through_one_function_and_one_product(problem, functions, products, layout):
    gate = Gate(*problem, layout=layout)
    plan = gate._plan
    assert len(plan.runs) == functions
    if layout == "mul_ir":
        assert len(plan.gated) == products
    assert sum(plan.sizes) == gate.irreps_in.dim


def test_functions_of_other_scales_stay_apart():
    from equigeo.nn import NormalizedActivation

    one, other = (NormalizedActivation(SILU, scale) for scale in (1.0, 2.0))
    gate = Gate("2x0e", [one], "2x0e", [other], "2x1o")
    assert len(gate._plan.runs) == 2
    x = torch.ones(10)
    torch.testing.assert_close(gate(x)[2:], 2 * SILU(x[0]) * torch.ones(6))
