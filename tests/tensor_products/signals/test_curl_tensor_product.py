import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import equigeo.tensor_products as tp
from equigeo.tensor_products import CurlTensorProduct, SphereGrid
from tests.tensor_products.signal_helpers import COSINES, SINES, close, signals

METHODS = ["grid", "paths"]
BASES = ["component", "integral", "norm"]


def test_odd_triples_within_the_triangle_rule_and_no_others_couple():
    for l1, l2, l3 in itertools.product(range(11), repeat=3):
        allowed = abs(l1 - l2) <= l3 <= l1 + l2 and (l1 + l2 + l3) % 2 == 1
        assert (tp.curl_coupling(l1, l2, l3) > 0) == allowed


@given(
    degrees=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    method=st.sampled_from(METHODS),
    basis=st.sampled_from(BASES),
)
def test_is_the_triple_product_of_the_point_and_both_gradients(degrees, method, basis):
    lmax1, lmax2 = degrees
    product = CurlTensorProduct(lmax1, lmax2, lmax1 + lmax2, method, basis)
    x, y = signals(product, 1)
    points = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = torch.nn.functional.normalize(points, dim=-1).requires_grad_()

    def values(coefficients: Tensor) -> Tensor:
        lmax = math.isqrt(coefficients.shape[-1]) - 1
        harmonics = tp.spherical_harmonics(range(lmax + 1), points, True, basis)
        return (coefficients * harmonics).sum(-1)

    # With normalize, derivatives across the sphere vanish: these are surface gradients.
    gradients = [torch.autograd.grad(values(s).sum() + 0 * points.sum(), points)[0] for s in (x, y)]
    want = (points * torch.linalg.cross(*gradients)).sum(-1)
    error = (values(product(x, y)) - want).abs().max()
    assert error <= 1e-12 * (1 + want.abs().max())


def test_the_grid_of_the_gaunt_product_is_enough_and_one_less_too():
    want = CurlTensorProduct(2, 2, 4, "paths")(SINES, COSINES)
    for grid in (None, (4, 8), SphereGrid.fejer(8, 8), (9, 12)):
        assert close(CurlTensorProduct(2, 2, 4, grid=grid)(SINES, COSINES), want, 1e-13)
    for grid in ((3, 8), (4, 7)):
        with pytest.raises(ValueError, match="grid must be exact for polynomials of degree 7"):
            CurlTensorProduct(2, 2, 4, grid=grid)


def test_counts():
    # 3 x 5 points for degree 1: two gradients each way in, two products, one way out
    to_grid, back = 3 * (4 + 3 * 5), 3 * (9 + 5 * 5)
    assert CurlTensorProduct(1, 1, 2).multiply_adds() == 4 * to_grid + 2 * 15 + back
    assert [CurlTensorProduct(l, l, 2 * l, "paths").multiply_adds() for l in (1, 2, 3)] == [
        6,
        82,
        424,
    ]
