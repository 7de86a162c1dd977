import math
from fractions import Fraction

import pytest
import torch
from e3nn import o3
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.ops.geometry.spherical_harmonics import spherical_harmonics_reference
from equigeo.reps import Irreps
from equigeo.tensor_products.sphere.spherical_harmonics import harmonics_table
from equigeo.testing import assert_equivariant, tolerance

F64 = torch.float64
NORMALIZATIONS = ["component", "integral", "norm"]
POLES_AND_AXES = torch.cat([torch.eye(3), -torch.eye(3)]).double()


def vectors(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, 3, dtype=dtype, generator=torch.Generator().manual_seed(n))


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
    want = torch.tensor(exact_harmonics(l, rational), dtype=torch.float64)
    x = torch.tensor([float(c) for c in rational], dtype=torch.float64)
    for normalize in (True, False):
        got = tp.spherical_harmonics(l, x, normalize, "component")
        assert_close(got, want, **tolerance(F64, 2 * l + 1))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("l", range(12))
def test_equals_e3nn_as_far_as_it_goes(l, normalize, normalization):
    x = torch.cat([vectors(20), POLES_AND_AXES])
    want = o3.spherical_harmonics(l, x, normalize, normalization)
    got = tp.spherical_harmonics(l, x, normalize, normalization)
    scale = want.abs().max()
    assert_close(got / scale, want / scale, **tolerance(F64, 2 * l + 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
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
    x = vectors(30, torch.float32) * length
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
    assert_equivariant(tp.SphericalHarmonics(irreps, normalize), inputs=[vectors(4)], condition=4)


@pytest.mark.parametrize(
    "irreps", ["0e+1o+2e", "2x1o+0e", "1e", "0e+2e", "0x2e+1o", o3.Irreps("3o+3o+1o"), 4, [2, 0, 2]]
)
def test_takes_what_e3nn_takes(irreps):
    x = vectors(6)
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
    columns, x = Irreps(irreps, "ir_mul"), vectors(6)
    module, plain = (tp.SphericalHarmonics(each, False) for each in (columns, irreps))
    assert module.irreps_out == plain.irreps_out.with_layout("ir_mul")
    expected = plain.irreps_out.to_layout(plain(x), "ir_mul")
    assert torch.equal(module(x), expected)
    assert torch.equal(tp.spherical_harmonics(columns, x, False), expected)
    assert_equivariant(module, inputs=[x], condition=4)


def test_a_pseudovector_may_be_named():
    assert (
        str(tp.SphericalHarmonics([0, 1, 2], True, irreps_in="1e").irreps_out) == "1x0e+1x1e+1x2e"
    )


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (3,), (2, 1, 4, 3)])
def test_batches_of_any_shape(shape):
    x = torch.linspace(-1, 1, math.prod(shape), dtype=torch.float64).view(shape)
    values = tp.spherical_harmonics([1, 3], x, True)
    assert values.shape == (*shape[:-1], 10)
    want = [tp.spherical_harmonics([1, 3], row, True) for row in x.reshape(-1, 3)]
    assert_close(values.reshape(-1, 10), torch.stack(want) if want else values.reshape(-1, 10))


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
def test_what_cannot_be_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        tp.SphericalHarmonics(*arguments)


def test_points_must_be_vectors_of_numbers():
    with pytest.raises(ValueError, match=r"x must be \(\.\.\., 3\), got \(2, 4\)"):
        tp.spherical_harmonics(1, torch.zeros(2, 4), True)
    with pytest.raises(TypeError, match=r"x must be floating, got torch\.int64"):
        tp.spherical_harmonics(1, torch.zeros(2, 3).long(), True)
