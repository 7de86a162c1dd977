import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.groups import SO
from equigeo.tensor_products import CurlTensorProduct, MatrixTensorProduct
from equigeo.testing import assert_equivariant, tolerance
from tests.tensor_products.path_helpers import inputs_of
from tests.tensor_products.signal_helpers import (
    COSINES,
    SINES,
    block,
    close,
    couple,
    fejer,
    signal,
    signals,
)
from tests.tensor_products.symbols import allowed, wigner_6j_symbol

METHODS = ["grid", "paths"]
BASES = ["component", "integral", "norm"]


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
    for grid in (None, (4, 8), fejer(8, 8), (9, 12)):
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


def triples(lmax: int, lmax_out: int) -> list[tuple[int, int, int]]:
    ranges = range(lmax + 1), range(lmax + 1), range(lmax_out + 1)
    return [triple for triple in itertools.product(*ranges) if allowed(*triple)]


def paths(product: MatrixTensorProduct, lmax: int, x: Tensor, y: Tensor) -> Tensor:
    """The same as a sum of couplings."""
    z = torch.zeros(*x.shape[:-1], product.irreps_out.dim, dtype=x.dtype)
    lmax_out = math.isqrt(product.irreps_out.dim) - 1
    for l1, l2, l3 in triples(lmax, lmax_out):
        z[..., block(l3)] += product.coefficient(l1, l2, l3) * couple(l1, l2, l3, x, y)
    return z


@pytest.mark.parametrize("normalization", ["none", "component"])
@pytest.mark.parametrize("t", [1, 2, 3])
def test_every_path_has_the_strength_of_the_6j_symbol(t, normalization):
    product = MatrixTensorProduct(2 * t, 2 * t, 2 * t, t, normalization=normalization)
    for l1, l2, l3 in triples(2 * t, 2 * t):
        eye = torch.eye((2 * t + 1) ** 2, dtype=torch.float64)
        made = product(eye[block(l1), None], eye[None, block(l2)])[..., block(l3)]
        scale = math.sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1))
        kappa = (-1) ** l3 * wigner_6j_symbol(l1, l2, l3, t, t, t)
        kappa *= 1 if normalization == "none" else scale
        want = kappa * couple(l1, l2, l3, eye[:, None], eye[None])[block(l1), block(l2)]
        assert_close(made, want, rtol=0, atol=1e-15 * scale)
        same = tolerance(torch.float64)["rtol"]
        assert product.coefficient(l1, l2, l3) == pytest.approx(kappa, rel=same)


@given(st.integers(0, 4), st.integers(0, 2), st.data())
def test_any_t_gives_the_sum_of_its_paths(lmax, above, data):
    lmax_out = data.draw(st.integers(0, 2 * lmax))
    t = (max(lmax, lmax_out) + 1) // 2 + above
    product = MatrixTensorProduct(lmax, lmax, lmax_out, t)
    x, y = signal(lmax, 3), signal(lmax, 3, name="y")
    assert close(product(x, y), paths(product, lmax, x, y), 1e-12)


def test_the_smallest_t_is_the_default():
    sizes = [(1, 1, 2), (2, 2, 2), (2, 2, 4), (3, 1, 2), (0, 0, 0), (5, 5, 0)]
    assert [MatrixTensorProduct(*degrees).t for degrees in sizes] == [1, 1, 2, 2, 0, 3]


def test_few_strengths_vanish_by_accident():
    missing = {(3, 5, 5), (5, 3, 5), (5, 5, 3)}
    product = MatrixTensorProduct(6, 6, 6, t=3)
    assert len(triples(6, 6)) == 175
    zeros = {triple for triple in triples(6, 6) if product.coefficient(*triple) == 0}
    assert zeros == missing
    x, y = signal(6), signal(6, name="y")
    for l1, l2, l3 in [*missing, (3, 5, 4)]:
        one, two = torch.zeros(2, 49, dtype=torch.float64)
        one[block(l1)], two[block(l2)] = x[block(l1)], y[block(l2)]
        # sums of products of numbers below one half, in units of 5.6e-17
        vanishes = bool(product(one, two)[block(l3)].abs().max() < 1e-15)
        assert vanishes == ((l1, l2, l3) in missing)


@pytest.mark.parametrize("degrees", [(1, 1, 2), (2, 1, 3), (0, 2, 2), (3, 3, 3)], ids=str)
def test_one_parity_is_equivariant_under_rotations_only(degrees):
    product = MatrixTensorProduct(*degrees)
    assert product.rep_out.group == SO(3)
    inputs = inputs_of(product, 3)
    assert_equivariant(product, inputs=inputs)
    if degrees != (0, 2, 2):  # a scalar makes no odd path
        whole = product.irreps_in1, product.irreps_in2
        with pytest.raises(AssertionError, match=r"not equivariant under O\(3\).* determinant -1"):
            assert_equivariant(product, whole, product.irreps_out, inputs=inputs)


@pytest.mark.parametrize("parities", list(itertools.product((0, 1), repeat=2)), ids=str)
def test_parities_multiply_exactly(parities):
    single, both = MatrixTensorProduct(2, 2, 3), MatrixTensorProduct(2, 2, 3, parity="both")
    assert str(both.irreps_in1) == "1x0e+1x1e+1x2e+1x0o+1x1o+1x2o"
    x, y = signal(2, 4), signal(2, 4, name="y")
    families = torch.zeros(2, 4, 2, 9, dtype=torch.float64)
    families[0, :, parities[0]], families[1, :, parities[1]] = x, y
    z = both(*families.flatten(-2)).unflatten(-1, (2, 16))
    made = sum(parities) % 2
    # the same sums of numbers of order one, in units of 2.2e-16
    assert_close(z[:, made], single(x, y), rtol=0, atol=1e-15)
    assert not z[:, 1 - made].any()


def test_counts_of_one_block():
    counts = [MatrixTensorProduct(l, l, 2 * l).multiply_adds() for l in range(1, 11)]
    assert counts[:4] == [180, 1200, 4312, 11340]
    assert counts[4:] == [24684, 47320, 82800, 135252, 209380, 310464]
    assert MatrixTensorProduct(2, 2, 4, parity="both").multiply_adds() == 2 * 1200
