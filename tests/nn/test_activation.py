"""Activations by term, and those that keep the second moment."""

import math

import pytest
import torch
from torch import nn

from equigeo.nn import Activation, Gate, NormalizedActivation
from equigeo.nn.activation import second_moment
from equigeo.testing import assert_equivariant, tolerance


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_terms_are_acted_on_one_by_one(layout):
    activation = Activation(
        "2x0e+2x1o+2x0o+1x0o", [torch.exp, None, torch.tanh, torch.abs], layout=layout
    )
    assert str(activation.irreps_out) == "2x0e+2x1o+2x0o+1x0e"
    x = torch.randn(4, 11, generator=torch.Generator().manual_seed(0))
    z = activation(x)
    assert z[:, 2:8].equal(x[:, 2:8])
    torch.testing.assert_close(z[:, 10], x[:, 10].abs(), **tolerance(x.dtype))
    assert_equivariant(activation, inputs=[x])


def test_empty_irreps_make_empty_features():
    assert Activation("", [])(torch.zeros(3, 0)).shape == (3, 0)


BAD = {
    "number": ("2x0e+1x0o", [torch.tanh], "one entry per term of 2x0e[+]1x0o, 2, got 1"),
    "vector": ("2x1o", [torch.tanh], "scalars only, got tanh for 2x1o"),
    "parity": ("2x0o", [torch.exp], "2x0o needs an even or odd function, exp is neither"),
    "scaled": ("2x0o", [NormalizedActivation(torch.exp)], "exp is neither"),
    "text": ("2z", [None], "irreps_in: irreps '2z' cannot be read"),
}


@pytest.mark.parametrize(("irreps", "acts", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_named(irreps, acts, message):
    with pytest.raises(ValueError, match=message):
        Activation(irreps, acts)


def test_wrong_features_are_refused():
    with pytest.raises(ValueError, match=r"features of .* are \(\.\.\., 2\), got \(3,\)"):
        Activation("2x0e", [torch.tanh])(torch.zeros(3))


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


@pytest.mark.parametrize("function", [torch.tanh, nn.functional.silu, torch.sigmoid, nn.ELU()])
def test_scaled_functions_have_second_moment_one(function):
    z = torch.randn(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    square = NormalizedActivation(function)(z).square()
    four_errors = 4 * square.std().item() / len(z) ** 0.5  # of the mean
    assert square.mean().item() == pytest.approx(1, abs=four_errors)
    assert second_moment(NormalizedActivation(function)) == pytest.approx(1, rel=CLOSE)


def test_a_module_is_registered_and_its_scale_is_fixed():
    activation = NormalizedActivation(nn.PReLU().double())
    assert [name for name, _ in activation.named_parameters()] == ["function.weight"]
    assert activation.scale == pytest.approx((0.5 * (1 + 0.25**2)) ** -0.5, rel=CLOSE)


def test_a_given_scale_is_kept():
    assert NormalizedActivation(torch.tanh, scale=1.5925)(torch.tensor(0.0)) == 0
    assert NormalizedActivation(torch.abs, scale=2.0)(torch.tensor(3.0)) == 6


@pytest.mark.parametrize("function", [torch.zeros_like, torch.log])
def test_a_function_without_a_scale_is_refused(function):
    with pytest.raises(ValueError, match="has second moment"):
        NormalizedActivation(function)


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
