"""Activations by term and by length, and gates."""

import math

import pytest
import torch
from e3nn import nn as e3nn_nn
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import silu

from equigeo.groups import SL, SO, O, Similarity, point_group
from equigeo.nn import Activation, Gate, NormActivation, NormalizedActivation
from equigeo.nn.activation import second_moment
from equigeo.reps import Irreps, PlanarIrrep, Points, Regular, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.groups.own_groups import Lorentz, Masses, Motions, Quarters
from tests.wrong_inputs import refused

both_layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])


@both_layouts
def test_terms_are_acted_on_one_by_one(layout):
    acts = [torch.exp, None, torch.tanh, torch.abs]
    activation = Activation("2x0e+2x1o+2x0o+1x0o", acts, layout=layout)
    assert str(activation.irreps_out) == "2x0e+2x1o+2x0o+1x0e"
    x = random(4, 11, dtype=torch.float32)
    z = activation(x)
    assert z[:, 2:8].equal(x[:, 2:8])
    torch.testing.assert_close(z[:, 10], x[:, 10].abs(), **tolerance(x.dtype))
    assert_equivariant(activation, inputs=[x])
    assert Activation("", [])(torch.zeros(3, 0)).shape == (3, 0)


# Weights of the quadrature are positive: rounding does not grow with the number of nodes.
CLOSE = tolerance(torch.float64)["rtol"]

KNOWN = {
    "identity": (lambda x: x, 1.0),
    "square": (torch.square, 3.0),
    "relu": (torch.relu, 0.5),
    "abs": (torch.abs, 1.0),
    "cos": (torch.cos, (1 + math.exp(-2)) / 2),
    "sin": (torch.sin, (1 - math.exp(-2)) / 2),
    "exp": (torch.exp, math.exp(2)),
    "hardtanh": (
        nn.Hardtanh(),
        # E[min(z^2, 1)] = erf(1/sqrt 2) - 2 phi(1) + erfc(1/sqrt 2)
        1 - 2 * math.exp(-0.5) / math.sqrt(2 * math.pi),
    ),
    "step": (lambda x: (x > 0).to(x), 0.5),
}


@pytest.mark.parametrize(("function", "moment"), KNOWN.values(), ids=KNOWN.keys())
def test_second_moment_equals_the_closed_form(function, moment):
    assert second_moment(function) == pytest.approx(moment, rel=CLOSE)


@pytest.mark.parametrize("function", [torch.tanh, silu, torch.sigmoid, nn.ELU()])
def test_scaled_functions_have_second_moment_one(function):
    z = torch.randn(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    square = NormalizedActivation(function)(z).square()
    four_errors = 4 * square.std().item() / len(z) ** 0.5  # of the mean
    assert square.mean().item() == pytest.approx(1, abs=four_errors)
    assert second_moment(NormalizedActivation(function)) == pytest.approx(1, rel=CLOSE)


def test_scales_are_computed_once_or_given():
    activation = NormalizedActivation(nn.PReLU().double())
    assert [name for name, _ in activation.named_parameters()] == ["function.weight"]
    assert activation.scale == pytest.approx((0.5 * (1 + 0.25**2)) ** -0.5, rel=CLOSE)
    assert NormalizedActivation(torch.tanh, scale=1.5925)(torch.tensor(0.0)) == 0
    assert NormalizedActivation(torch.abs, scale=2.0)(torch.tensor(3.0)) == 6
    for function in (torch.zeros_like, torch.log):
        refused("has second moment", NormalizedActivation, function)


@pytest.mark.parametrize("act", [torch.nn.ReLU(inplace=True), torch.nn.SiLU(inplace=True)])
def test_functions_that_work_in_place_leave_the_features_alone(act):
    layers = Activation("8x0e", [act]), Gate("8x0e", [act], "4x0e", [act], "4x1o")
    for layer in layers:
        with torch.no_grad():
            features = torch.randn(4, layer.irreps_in.dim)
            kept = features.clone()
            layer(features)
        assert torch.equal(features, kept)
        layer(features.requires_grad_()).sum().backward()


CLOSE_TO = tolerance(torch.float64, terms=16)
VECTOR = TensorRep(O(3))
REPS = [
    2 * VECTOR + VECTOR @ VECTOR + Trivial(O(3), 3) + VECTOR,
    PlanarIrrep(O(2), 2) + 2 * TensorRep(O(2)),
    TensorRep(SO(3), up=2) + TensorRep(SO(3)).dual(),
    3 * TensorRep(Quarters()) + Trivial(Quarters(), 1),
    2 * TensorRep(Motions()) + Trivial(Motions(), 1),
    Irreps("2x0o + 3x1e + 2x2o", "ir_mul"),
]


def layer_of(rep: object, function: object = torch.tanh, **options: object) -> NormActivation:
    """A layer whose biases are not zero."""
    layer = NormActivation(rep, function, bias=True, **options).double()
    torch.nn.init.uniform_(layer.biases)
    return layer


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("rep", REPS, ids=str)
def test_activations_by_length_are_equivariant(rep, normalize):
    layer = layer_of(rep, torch.sigmoid, normalize=normalize)
    assert_equivariant(layer, inputs=[random(6, rep.dim)])


def test_activations_by_length_commute_with_point_groups_and_need_whole_copies():
    samples, layer = point_group("T_d"), layer_of("6x0e")
    regular = layer_of(2 * Regular(samples))
    assert_equivariant(regular, inputs=[random(6, 48)], elements=samples.h)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(layer, *[Irreps("2x1o")] * 2, inputs=[random(6, 6)])


def test_values_of_irreps_are_those_of_e3nn():
    irreps = o3.Irreps("4x0e + 2x1o + 2x2e")
    # e3nn clamps lengths at epsilon, here they are smooth there
    ours = layer_of(irreps, torch.sigmoid, epsilon=1e-12)
    theirs = e3nn_nn.NormActivation(irreps, torch.sigmoid, epsilon=1e-12, bias=True).double()
    theirs.load_state_dict(ours.state_dict(), strict=False)
    x = random(5, irreps.dim)
    torch.testing.assert_close(ours(x), theirs(x), **CLOSE_TO)
    gate = layer_of("2x0e + 1o", torch.sigmoid, normalize=False, epsilon=1e-12)
    lengths = torch.stack([x[:, 0].abs(), x[:, 1].abs(), x[:, 2:5].norm(dim=1)], 1)
    factors = torch.sigmoid(lengths + gate.biases)[:, [0, 1, 2, 2, 2]]
    torch.testing.assert_close(gate(x[:, :5]), factors * x[:, :5], **CLOSE_TO)


def test_a_function_of_one_is_the_identity_and_zero_stays_zero():
    x = random(4, 9)
    x[0] = 0.0
    x.requires_grad_()
    rep = TensorRep(O(3), up=2)
    same = NormActivation(rep, torch.nn.ReLU(inplace=True))
    torch.testing.assert_close(same(x), x, **CLOSE_TO)
    torch.testing.assert_close(NormActivation(rep, torch.ones_like, False)(x), x, **CLOSE_TO)
    (grad,) = torch.autograd.grad(layer_of(rep)(x).sum(), x)
    assert bool(grad.isfinite().all())
    assert NormActivation(Trivial(O(3), 0), torch.tanh)(x[:, :0]).shape == (4, 0)


def test_half_precision_is_rounded_once():
    layer = NormActivation("2x1o", torch.tanh)
    x = random(8, 6).float() * 300  # squares overflow in float16
    torch.testing.assert_close(layer(x.half()), layer(x.half().float()).half(), rtol=0, atol=0)


def test_representations_and_options_without_lengths_raise():
    message = "lengths of features need an orthogonal representation"
    for rep in (TensorRep(SL(2)), TensorRep(Similarity(3)), TensorRep(Lorentz()), Masses()):
        refused(message, NormActivation, rep, torch.tanh)
    points = Points(O(3))
    refused("rep_in must be linear", NormActivation, points, torch.tanh, error=TypeError)
    message = "epsilon must be positive and finite, got 0"
    refused(message, NormActivation, "1o", torch.tanh, epsilon=0.0)


PROBLEM = ("4x0e+3x0o+2x0e", [silu, torch.abs, None], "2x0e+4x0o", [silu, torch.tanh])
GATED = "3x1o+1x2e+2x1o"


@both_layouts
def test_gates_are_equivariant_and_keep_leading_axes(layout):
    gate = Gate(*PROBLEM, GATED, layout=layout)
    dim = gate.irreps_in.dim
    assert_equivariant(gate, inputs=[random(6, dim, dtype=torch.float32)])
    for batch in ((), (0,), (2, 0, 3), (2, 3)):
        assert gate(random(*batch, dim)).shape == (*batch, gate.irreps_out.dim)


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
    arguments = (str(scalars), acts, gates, [torch.tanh, silu], str(gated))
    rows, columns = Gate(*arguments), Gate(*arguments, layout="ir_mul")
    assert rows.irreps_in.with_layout("ir_mul") == columns.irreps_in
    assert rows.irreps_out.with_layout("ir_mul") == columns.irreps_out
    x = random(3, rows.irreps_in.dim)
    moved = columns(rows.irreps_in.to_layout(x, "ir_mul"))
    assert columns.irreps_out.to_layout(moved, "mul_ir").equal(rows(x))


@both_layouts
@pytest.mark.parametrize(
    ("problem", "functions", "products"),
    [
        # As NequIP has it: gates lie beside the even scalars, and go through the same function.
        (("8x0e+8x0o", [silu, torch.tanh], "32x0e", [silu], "8x1o+8x1e+8x2o+8x2e"), 2, 2),
        (("8x0e", [silu], "16x0e", [torch.sigmoid], "8x1o+8x1e"), 2, 1),
        (("8x0e", [None], "8x0e", [None], "8x0o"), 1, 1),
        (("2x0e+3x0e", [silu, silu], "", [], ""), 1, 0),
        # A gate that flips the parity cuts a term, and lies elsewhere; one product has both gates.
        (("4x0e", [silu], "2x0e+2x0o", [silu, torch.tanh], "4x1o"), 2, 1),
        (("", [], "", [], ""), 0, 0),
    ],
)
def test_neighbours_go_through_one_function_and_one_product(problem, functions, products, layout):
    gate = Gate(*problem, layout=layout)
    assert len(gate._runs) == functions
    if layout == "mul_ir":
        assert len(gate._gated) == products
    assert sum(gate._sizes) == gate.irreps_in.dim
    one, other = (NormalizedActivation(silu, scale) for scale in (1.0, 2.0))
    gate = Gate("2x0e", [one], "2x0e", [other], "2x1o")
    assert len(gate._runs) == 2  # of scales that differ
    x = torch.ones(10)
    torch.testing.assert_close(gate(x)[2:], 2 * silu(x[0]) * torch.ones(6))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Activation, ("2x0e+1x0o", [torch.tanh]), "one entry per term of 2x0e[+]1x0o, 2, got 1"),
        (Activation, ("2x1o", [torch.tanh]), "scalars only, got tanh for 2x1o"),
        (Activation, ("2x0o", [torch.exp]), "2x0o needs an even or odd function, exp is neither"),
        (Activation, ("2x0o", [NormalizedActivation(torch.exp)]), "exp is neither"),
        (Activation, ("2z", [None]), "irreps_in: irreps '2z' cannot be read"),
        (Gate, ("1x1o", [None], "", [], ""), "irreps_scalars must be scalars, got 1x1o"),
        (Gate, ("", [], "1x1o", [None], "1x1o"), "irreps_gates must be scalars, got 1x1o"),
        (Gate, ("", [], "2x0e", [silu], "3x1o"), "each of the 3 irreps .* got 2 in 2x0e"),
        (Gate, ("2x0e", [], "", [], ""), "one entry per term of 2x0e, 1, got 0"),
        (Gate, ("", [], "1x0o", [silu], "1x1o"), "1x0o needs an even or odd function, silu"),
        (Gate, ("", [], "1x0o", [torch.abs], "1z"), "irreps_gated: irreps '1z' cannot be read"),
    ],
)
def test_irreps_and_functions_that_do_not_fit_raise(make, arguments, message):
    refused(message, make, *arguments)


def test_features_that_do_not_fit_raise():
    for layer, dim in (
        (Activation("2x0e", [torch.tanh]), 2),
        (Gate("1x0e", [silu], "", [], ""), 1),
        (NormActivation("1o", torch.tanh), 3),
    ):
        refused(rf"are \(\.\.\., {dim}\), got \(4,\)", layer, torch.zeros(4))
