"""Gates: their law, and how few steps they take."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.nn import Gate, NormalizedActivation
from equigeo.reps import Irreps
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random

SILU = torch.nn.functional.silu
PROBLEM = ("4x0e+3x0o+2x0e", [SILU, torch.abs, None], "2x0e+4x0o", [SILU, torch.tanh])
GATED = "3x1o+1x2e+2x1o"
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])


@layouts
def test_commutes_with_rotations_and_reflections(layout):
    gate = Gate(*PROBLEM, GATED, layout=layout)
    assert_equivariant(gate, inputs=[random(6, gate.irreps_in.dim, dtype=torch.float32)])


def test_scalars_are_transformed_and_the_rest_multiplied():
    gate = Gate("1x0e", [torch.exp], "2x0e", [torch.abs], "1x1o+1x2e")
    assert str(gate.irreps_in) == "3x0e+1x1o+1x2e"
    x = random(11)
    exp = NormalizedActivation(torch.exp)(x[:1])
    expected = torch.cat([exp, x[3:6] * x[1].abs(), x[6:] * x[2].abs()])
    torch.testing.assert_close(gate(x), expected, **tolerance(x.dtype))


scalars = st.lists(st.tuples(st.integers(0, 3), st.tuples(st.just(0), st.sampled_from([1, -1]))))
features = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1])))
)


@given(scalars=scalars.map(Irreps), gated=features.map(Irreps), data=st.data())
def test_both_layouts_are_one_map(scalars, gated, data):
    total = sum(mul for mul, _ in gated)
    cut = data.draw(st.integers(0, total))
    gates = f"{cut}x0o+{total - cut}x0e"
    acts = [torch.abs] * len(scalars.terms)
    arguments = (str(scalars), acts, gates, [torch.tanh, SILU], str(gated))
    rows, columns = Gate(*arguments), Gate(*arguments, layout="ir_mul")
    assert rows.irreps_in.with_layout("ir_mul") == columns.irreps_in
    assert rows.irreps_out.with_layout("ir_mul") == columns.irreps_out
    x = random(3, rows.irreps_in.dim)
    moved = columns(rows.irreps_in.to_layout(x, "ir_mul"))
    assert columns.irreps_out.to_layout(moved, "mul_ir").equal(rows(x))


@pytest.mark.parametrize("batch", [(), (0,), (2, 0, 3), (2, 3)])
@layouts
def test_any_leading_axes(layout, batch):
    gate = Gate(*PROBLEM, GATED, layout=layout)
    assert gate(random(*batch, gate.irreps_in.dim)).shape == (*batch, gate.irreps_out.dim)


BAD = {
    "scalars": (("1x1o", [None], "", [], ""), "irreps_scalars must be scalars, got 1x1o"),
    "gates": (("", [], "1x1o", [None], "1x1o"), "irreps_gates must be scalars, got 1x1o"),
    "number": (("", [], "2x0e", [SILU], "3x1o"), "each of the 3 irreps .* got 2 in 2x0e"),
    "acts": (("2x0e", [], "", [], ""), "one entry per term of 2x0e, 1, got 0"),
    "parity": (("", [], "1x0o", [SILU], "1x1o"), "1x0o needs an even or odd function, silu"),
    "text": (("", [], "1x0o", [torch.abs], "1z"), "irreps_gated: irreps '1z' cannot be read"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Gate(*arguments)


def test_wrong_features_are_refused():
    with pytest.raises(ValueError, match=r"features of .* are \(\.\.\., 1\), got \(3,\)"):
        Gate("1x0e", [SILU], "", [], "")(torch.zeros(3))


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize(
    ("problem", "functions", "products"),
    [
        # As NequIP has it: gates lie beside the even scalars, and go through the same function.
        (("8x0e+8x0o", [SILU, torch.tanh], "32x0e", [SILU], "8x1o+8x1e+8x2o+8x2e"), 2, 2),
        (("8x0e", [SILU], "16x0e", [torch.sigmoid], "8x1o+8x1e"), 2, 1),
        (("8x0e", [None], "8x0e", [None], "8x0o"), 1, 1),
        (("2x0e+3x0e", [SILU, SILU], "", [], ""), 1, 0),
        # A gate that flips the parity cuts a term, and lies elsewhere.
        (("4x0e", [SILU], "2x0e+2x0o", [SILU, torch.tanh], "4x1o"), 2, 2),
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
