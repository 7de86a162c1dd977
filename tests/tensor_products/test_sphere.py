"""Spherical harmonics and quadratures of the sphere."""

import math
from fractions import Fraction

import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.ops.geometry.spherical_harmonics import spherical_harmonics_reference
from equigeo.reps import Irreps
from equigeo.tensor_products import SphereGrid
from equigeo.tensor_products.sphere.spherical_harmonics import harmonics_table
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.tensor_products.signal_helpers import fejer
from tests.wrong_inputs import refused

F64 = torch.float64
POLES_AND_AXES = torch.cat([torch.eye(3), -torch.eye(3)]).double()


def exact_harmonics(l: int, point: tuple[Fraction, Fraction, Fraction]) -> list[float]:
    """By the explicit sum in rational numbers; only the last root is rounded."""
    x, y, z = point
    square = x * x + y * y + z * z
    values = []
    for order in range(-l, l + 1):
        m = abs(order)
        legendre = Fraction(0)
        for k in range((l - m) // 2 + 1):
            term = (-1) ** k * math.comb(l, k) * math.comb(2 * l - 2 * k, l)
            term *= math.perm(l - 2 * k, m)
            legendre += Fraction(term, 2**l) * y ** (l - m - 2 * k) * square**k
        re, im = Fraction(1), Fraction(0)
        for _ in range(m):
            re, im = re * z - im * x, re * x + im * z
        norm = Fraction((2 * l + 1) * math.factorial(l - m), math.factorial(l + m))
        value = legendre * (im if order < 0 else re)
        root = math.sqrt(norm * value * value * (1 if m == 0 else 2))
        values.append(math.copysign(root, value))
    return values


@pytest.mark.parametrize("l", [0, 1, 2, 7, 12, 20, 35])
@pytest.mark.parametrize("point", [(6, 2, 3), (-1, 4, 8), (2, -14, 5), (0, 0, 1), (0, -1, 0)])
def test_equals_the_explicit_sum_in_rational_numbers(l, point):
    length = math.isqrt(sum(c * c for c in point))
    rational = tuple(Fraction(c, length) for c in point)
    want = torch.tensor(exact_harmonics(l, rational), dtype=F64)
    x = torch.tensor([float(c) for c in rational], dtype=F64)
    for normalize in (True, False):
        got = tp.spherical_harmonics(l, x, normalize, "component")
        assert_close(got, want, **tolerance(F64, 2 * l + 1))


@pytest.mark.parametrize("normalization", ["component", "integral", "norm"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("l", range(12))
def test_equals_e3nn_as_far_as_it_goes(l, normalize, normalization):
    x = torch.cat([random(20, 3), POLES_AND_AXES])
    want = o3.spherical_harmonics(l, x, normalize, normalization)
    got = tp.spherical_harmonics(l, x, normalize, normalization)
    scale = want.abs().max()
    assert_close(got / scale, want / scale, **tolerance(F64, 2 * l + 1))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_zero_vector_has_a_value_and_finite_derivatives(dtype):
    x = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    values = tp.spherical_harmonics(range(5), x, True, "component")
    assert_close(values.detach(), torch.eye(25, dtype=dtype)[:1].expand(2, 25), rtol=0, atol=0)
    (first,) = torch.autograd.grad(values.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.isfinite().all()
    assert second.isfinite().all()


@pytest.mark.parametrize("length", [1e-30, 1e-10, 1.0, 1e10, 1e30])
def test_float32_is_as_accurate_as_it_can_be_at_every_length(length):
    x = random(30, 3, dtype=torch.float32) * length
    want = tp.spherical_harmonics(range(11), x.double(), True, "component")
    got = tp.spherical_harmonics(range(11), x, True, "component")
    assert got.dtype == torch.float32
    assert_close(got.double(), want, **tolerance(torch.float32, terms=11))


@pytest.mark.parametrize("l", range(5))
def test_what_is_not_finite_reaches_the_polynomials_that_depend_on_it(l):
    components = torch.tensor([0.0, 1.25, -0.5, torch.inf, -torch.inf, torch.nan], dtype=F64)
    x = torch.cartesian_prod(components, components, components).requires_grad_()
    found = tp.spherical_harmonics(l, x, False)
    table = harmonics_table(l, "integral")
    reference = spherical_harmonics_reference(x, table, [l], False)
    assert_close(found, reference, **tolerance(F64), equal_nan=True)
    if l <= 2:
        expected = o3.spherical_harmonics(l, x, False)
        # y^2 is in two terms of the recursion, but in one term of e3nn.
        differs = x[:, 1].isinf()[:, None] & (torch.arange(2 * l + 1) == 2)
        same = found.masked_fill(differs, 0.0), expected.masked_fill(differs, 0.0)
        assert_close(*same, **tolerance(F64), equal_nan=True)
    if l == 1:
        found.sum().backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("irreps", ["0e+1o+2e+3o+8e", "0e+1e+2e+3e", "2x1o+0e", [(1, (13, -1))]])
@pytest.mark.parametrize("normalize", [True, False])
def test_is_equivariant(irreps, normalize):
    assert_equivariant(tp.SphericalHarmonics(irreps, normalize), inputs=[random(4, 3)], condition=4)


@pytest.mark.parametrize(
    "irreps", ["0e+1o+2e", "2x1o+0e", "1e", "0e+2e", "0x2e+1o", o3.Irreps("3o+3o+1o"), 4, [2, 0, 2]]
)
def test_takes_what_e3nn_takes(irreps):
    x = random(6, 3)
    with torch.no_grad():
        theirs = o3.SphericalHarmonics(irreps, True, "component")
    mine = tp.SphericalHarmonics(irreps, True, "component")
    assert str(mine.irreps_out) == str(theirs.irreps_out)
    assert str(mine.irreps_in) == str(theirs.irreps_in)
    bound = tolerance(F64, 9)
    assert_close(mine(x), theirs(x), **bound)
    assert_close(tp.spherical_harmonics(irreps, x, True, "component"), theirs(x), **bound)


@pytest.mark.parametrize("irreps", ["2x1o+0e", "1o+1o+0e", "0e+1o"])
def test_a_layout_is_kept(irreps):
    columns, x = Irreps(irreps, "ir_mul"), random(6, 3)
    module, plain = (tp.SphericalHarmonics(each, False) for each in (columns, irreps))
    assert module.irreps_out == plain.irreps_out.with_layout("ir_mul")
    expected = plain.irreps_out.to_layout(plain(x), "ir_mul")
    assert torch.equal(module(x), expected)
    assert torch.equal(tp.spherical_harmonics(columns, x, False), expected)
    assert_equivariant(module, inputs=[x], condition=4)


def test_input_may_be_a_pseudovector():
    harmonics = tp.SphericalHarmonics([0, 1, 2], True, irreps_in="1e")
    assert str(harmonics.irreps_out) == "1x0e+1x1e+1x2e"


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (3,), (2, 1, 4, 3)])
def test_batches_of_any_shape(shape):
    x = torch.linspace(-1, 1, math.prod(shape), dtype=F64).view(shape)
    values = tp.spherical_harmonics([1, 3], x, True)
    assert values.shape == (*shape[:-1], 10)
    want = [tp.spherical_harmonics([1, 3], row, True) for row in x.reshape(-1, 3)]
    assert_close(values.reshape(-1, 10), torch.stack(want) if want else values.reshape(-1, 10))


def assert_integrates(grid: SphereGrid, degree: int) -> None:
    points = grid.latitudes * grid.longitudes
    assert_close(integral_errors(grid, degree).abs().max().item(), 0.0, **tolerance(F64, points))


def integral_errors(grid: SphereGrid, lmax: int) -> Tensor:
    """Errors of the integrals of all harmonics, from their values at the points."""
    area = grid.weights[:, None] * 2 * math.pi / grid.longitudes
    values = tp.spherical_harmonics(range(lmax + 1), grid.points(), True)
    found = (area[..., None] * values).sum((0, 1))
    return found - math.sqrt(4 * math.pi) * torch.eye((lmax + 1) ** 2, dtype=F64)[0]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 8, 13, 40])
def test_grid_is_exact_to_its_degree(degree):
    grid = SphereGrid.exact(degree)
    assert grid.degree >= degree
    assert_integrates(grid, degree)


@pytest.mark.parametrize(
    ("grid", "exact"),
    [
        (SphereGrid.gauss_legendre(5, 12), 9),
        (SphereGrid.gauss_legendre(9, 8), 7),
        (fejer(6, 9), 5),
        (fejer(9, 5), 4),
    ],
)
def test_grid_is_not_exact_beyond_its_degree(grid, exact):
    assert grid.degree == exact
    assert_integrates(grid, exact)
    # An odd number of latitudes can be exact by symmetry at the next odd degree.
    assert integral_errors(grid, exact + 2).abs().max() > 1e-3


@given(latitudes=st.integers(1, 40))
def test_weights_are_positive_and_nodes_symmetric(latitudes):
    grid = SphereGrid.gauss_legendre(latitudes, 3)
    assert (grid.latitudes, grid.longitudes) == (latitudes, 3)
    assert (grid.weights > 0).all()
    assert_close(grid.weights.sum().item(), 2.0, **tolerance(F64, latitudes))
    assert (grid.polar.diff() > 0).all()
    assert_close(grid.polar + grid.polar.flip(0), torch.full_like(grid.polar, math.pi))


def test_points_lie_on_the_sphere_around_the_axis_y():
    grid = SphereGrid.gauss_legendre(4, 6)
    points = grid.points()
    assert_close(points.norm(dim=-1), torch.ones(4, 6, dtype=F64))
    assert (points[0, :, 1] > 0.8).all()
    assert_close(points[:, 0, 0], torch.zeros(4, dtype=F64), rtol=0, atol=0)
    assert (points[:, 0, 2] > 0).all()


@pytest.mark.parametrize("lmax", [0, 1, 5, 20])
def test_factors_make_the_harmonics(lmax):
    grid = SphereGrid.gauss_legendre(7, 10)
    want = tp.spherical_harmonics(range(lmax + 1), grid.points(), True, "component")
    bound = tolerance(F64, 2 * lmax + 1, condition=max(1, lmax))  # degrees are slopes
    assert_close(product(grid.harmonics(lmax))[0], want, **bound)


@pytest.mark.parametrize("lmax", [0, 1, 5, 12])
def test_factors_make_the_surface_gradients(lmax):
    grid = SphereGrid.gauss_legendre(5, 8)
    points = grid.points()
    radial, axis = points, torch.tensor([0.0, 1.0, 0.0], dtype=F64).expand_as(points)
    east = torch.nn.functional.normalize(torch.linalg.cross(axis, radial), dim=-1)
    south = torch.linalg.cross(east, radial)

    harmonics = tp.SphericalHarmonics(range(lmax + 1), True, "component")
    jacobian = torch.func.vmap(torch.func.jacrev(harmonics))(points.view(-1, 3))
    jacobian = jacobian.view(*points.shape[:-1], -1, 3)
    want = torch.stack([torch.einsum("ijck,ijk->ijc", jacobian, v) for v in (south, east)])
    bound = tolerance(F64, 2 * lmax + 1, condition=max(1, lmax))
    assert_close(product(grid.gradients(lmax)), want, **bound)


def product(factors: tuple[Tensor, Tensor]) -> Tensor:
    """Multiply both factors: (summands, latitudes, longitudes, coefficients)."""
    legendre, trig = factors
    lmax = trig.shape[1] // 2
    orders = [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    return torch.einsum("sci,scj->sijc", legendre, trig[:, orders])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("1o+2o", True), ValueError, "irreps_out must have the parity 1 at degree 2"),
        (("1o+1e", True), ValueError, "irreps_out must have the parity 1 at degree 1"),
        (("1o", True, "integral", "2e"), ValueError, "irreps_in must be a vector, 1o, or"),
        (([], True), ValueError, "at least one degree"),
        ((-1, True), ValueError, "at least one degree and none negative, got -1"),
        (([1.5], True), TypeError, "irreps must be text"),
        ((1, True, "unit"), ValueError, 'normalization must be "component", "integral" or "norm"'),
    ],
)
def test_impossible_harmonics_raise(arguments, error, message):
    refused(message, tp.SphericalHarmonics, *arguments, error=error)


def test_impossible_points_and_grids_raise():
    x, harmonics = torch.zeros(2, 4), tp.spherical_harmonics
    refused(r"x must be \(\.\.\., 3\), got \(2, 4\)", harmonics, 1, x, True)
    message = r"x must be floating, got torch\.int64"
    refused(message, harmonics, 1, x[:, :3].long(), True, error=TypeError)
    refused("at least one latitude and longitude, got 0 x 3", SphereGrid.gauss_legendre, 0, 3)
    refused("got 3 x -1", SphereGrid.gauss_legendre, 3, -1)
    refused("degree must not be negative, got -1", SphereGrid.exact, -1)
