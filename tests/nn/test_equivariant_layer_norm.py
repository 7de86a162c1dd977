"""Norms of features: values of fairchem's, symmetry, layouts, gradients at zero."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equigeo.nn import EquivariantLayerNorm, EquivariantRMSNorm
from equigeo.reps import Irreps
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.wrong_inputs import refused

DOUBLE = torch.float64
NORMS = {
    "layer_norm": EquivariantLayerNorm,
    "layer_norm_sh": partial(EquivariantLayerNorm, degrees="together"),
    "rms_norm_sh": EquivariantRMSNorm,
    "rms_norm without centering": partial(EquivariantRMSNorm, centering=False),
}
norms = pytest.mark.parametrize("name", NORMS)
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
IRREPS = "4x0e+3x0o+2x0e+3x1o+1x2e+2x1o"


def trained(norm: nn.Module) -> nn.Module:
    """With factors and shifts that differ."""
    norm.double()
    for k, parameter in enumerate(norm.parameters()):
        parameter.data.add_(0.3 * random(*parameter.shape, seed=k + 1))
    return norm


# Rows 0, 1 and 4 of fairchem-core 2.24.0 on sin(1..27) as (1, 9, 3).
FAIRCHEM = {
    "layer_norm": {
        0: [0.6071650764, 0.8024864178, -1.4096514942],
        1: [-1.0434270622, -1.3220986254, -0.3852388096],
        4: [0.5842474056, 1.3774516484, 0.9042331982],
    },
    "layer_norm_sh": {
        0: [0.6071650764, 0.8024864178, -1.4096514942],
        1: [-1.0478566473, -1.3277112346, -0.3868742359],
    },
    "rms_norm_sh": {
        0: [0.3385083864, 0.4474044916, -0.7859128780],
        1: [-1.2150548038, -1.5395635634, -0.4486046828],
    },
}


@pytest.mark.parametrize("name", FAIRCHEM)
@layouts
def test_values_of_fairchem(name, layout):
    irreps = Irreps("3x0e+3x1o+3x2e", "ir_mul")
    x = irreps.to_layout(torch.arange(1, 28, dtype=DOUBLE).sin(), layout)
    norm = NORMS[name](irreps.with_layout(layout), layout=layout).double()
    found = irreps.with_layout(layout).to_layout(norm(x), "ir_mul").view(9, 3)
    for row, values in FAIRCHEM[name].items():
        want = torch.tensor(values, dtype=DOUBLE)
        # half a unit of the tenth decimal, the last of the table
        torch.testing.assert_close(found[row], want, rtol=0, atol=5e-11)


@norms
@layouts
@pytest.mark.parametrize("normalization", ["component", "norm"])
def test_norms_are_equivariant(name, layout, normalization):
    norm = trained(NORMS[name](IRREPS, normalization, layout=layout))
    assert_equivariant(norm, inputs=[random(6, norm.irreps_in.dim)])


@given(
    terms=st.lists(
        st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1]))),
        max_size=5,
    ),
    name=st.sampled_from([*NORMS]),
    normalization=st.sampled_from(["component", "norm"]),
)
def test_both_layouts_are_one_map(terms, name, normalization):
    irreps = Irreps(terms)
    rows = trained(NORMS[name](terms, normalization))
    columns = trained(NORMS[name](terms, normalization, layout="ir_mul"))
    x = random(5, irreps.dim)
    found = columns.irreps_out.to_layout(columns(irreps.to_layout(x, "ir_mul")), "mul_ir")
    assert found.isfinite().all()
    torch.testing.assert_close(found, rows(x), **tolerance(DOUBLE, 64))


@norms
def test_zero_stays_zero_with_finite_gradients_of_two_orders(name):
    norm = NORMS[name](IRREPS).double()
    x = torch.zeros(2, norm.irreps_in.dim, dtype=DOUBLE, requires_grad=True)
    out = norm(x)
    (first,) = torch.autograd.grad((out * random(*out.shape)).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * random(*first.shape, seed=1)).sum(), x)
    assert out.eq(0).all()
    assert first.isfinite().all()
    assert second.isfinite().all()
    assert first.abs().max() > 1


@norms
@pytest.mark.parametrize("normalization", ["component", "norm"])
def test_size_of_the_input_is_lost(name, normalization):
    norm = NORMS[name](IRREPS, normalization, eps=1e-12).double()
    x = random(4, norm.irreps_in.dim)
    # eps = 1e-12 changes what is divided by the root of a mean square m by eps / 2m of itself:
    # no more than 1e-10 where m is at least a two hundredth
    torch.testing.assert_close(norm(1e3 * x), norm(x), rtol=1e-10, atol=1e-12)


def test_mean_square_is_one_after_the_norm():
    irreps = Irreps("16x0e+16x1o+16x2e")
    x = 5 * random(3, irreps.dim) + 2
    bound = {"rtol": 2e-6, "atol": 0.0}  # eps = 1e-5 is added to mean squares of 25, at least 5
    for term in EquivariantLayerNorm(irreps, affine=False)(x).split([16, 48, 80], -1):
        torch.testing.assert_close(term.square().mean(-1), torch.ones(3, dtype=DOUBLE), **bound)
    lengths = EquivariantLayerNorm(irreps, "norm", affine=False)(x)[:, 16:64].view(3, 16, 3)
    length = lengths.square().sum(-1).mean(-1)
    torch.testing.assert_close(length, torch.ones(3, dtype=DOUBLE), **bound)


def test_parameters_are_those_of_a_layer_norm():
    sizes = {name: len(x) for name, x in EquivariantLayerNorm(IRREPS).state_dict().items()}
    assert sizes == {"weight": 15, "bias": 6}
    assert EquivariantLayerNorm(IRREPS, affine=False).state_dict() == {}
    assert len(EquivariantRMSNorm(IRREPS, centering=False).bias) == 0
    x, ours, theirs = random(5, 8), trained(EquivariantLayerNorm("8x0e")), nn.LayerNorm(8).double()
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x), **tolerance(DOUBLE, 16))


@norms
def test_bad_arguments_and_inputs_raise(name):
    make = partial(NORMS[name], IRREPS)
    message = r'normalization must be "component" or "norm", got \'mean\''
    refused(message, make, normalization="mean")
    refused(r"eps must be positive and finite, got 0\.0", make, eps=0.0)
    refused("eps must be positive and finite, got nan", make, eps=math.nan)
    refused('layout must be "mul_ir" or "ir_mul"', make, layout="mul")
    refused("5", make(), torch.zeros(3, 5))
    message = 'degrees must be "separate" or "together"'
    refused(message, EquivariantLayerNorm, IRREPS, degrees="all")
