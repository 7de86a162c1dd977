import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import grid_product, spherical_harmonics
from equigeo.ops.geometry.grid_product import SeparableTransform
from equigeo.ops.geometry.spherical_harmonics import spherical_harmonics_reference
from equigeo.tensor_products.sphere.spherical_harmonics import harmonics_table
from equigeo.testing import tolerance
from tests.ops.test_ops import derivatives

pytestmark = pytest.mark.kernels


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


@pytest.mark.parametrize("summands", [1, 2])
@pytest.mark.parametrize("lmax", [0, 1, 3])
def test_is_the_trilinear_form_of_its_tables(lmax, summands):
    d, order = (lmax + 1) ** 2, [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    tables = [randn(summands, size, n) for _ in "xyz" for size, n in ((d, 3), (2 * lmax + 1, 5))]
    full = [
        torch.einsum("sab,sac->sabc", legendre, trig[:, order])
        for legendre, trig in zip(tables[::2], tables[1::2], strict=True)
    ]
    x, y = randn(4, d), randn(4, d)
    want = torch.einsum("na,nb,sapq,sbpq,scpq->nc", x, y, *full)
    assert_close(grid_product(x, y, *tables), want)


@pytest.mark.parametrize(("of_legendre", "of_trig"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("lmax", [0, 2, 5])
def test_analyze_is_the_transpose_of_evaluate(lmax, of_legendre, of_trig):
    pair = randn(of_legendre, (lmax + 1) ** 2, 4), randn(of_trig, 2 * lmax + 1, 7)
    separable = SeparableTransform(*pair)
    x, values = randn(3, (lmax + 1) ** 2), randn(of_legendre, 3, 4, 7)
    left, right = (separable.evaluate(x) * values).sum(), (x * separable.analyze(values)).sum()
    assert_close(left, right, **tolerance(torch.float64, terms=1000, condition=10))


TABLE = harmonics_table(4, "component")


def vectors(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, 3, dtype=dtype, generator=torch.Generator().manual_seed(n))


def assert_agrees(x: Tensor, table: Tensor, *arguments: Any, terms: int) -> None:
    """Compare values, gradients and second derivatives with the reference."""
    got = derivatives(spherical_harmonics, [x], [table, *arguments])
    want = derivatives(spherical_harmonics_reference, [x], [table, *arguments])
    for (a,), (b,) in zip(got, want, strict=True):
        size = b.abs().max()
        assert_close(a / size, b / size, **tolerance(x.dtype, terms))


@pytest.mark.parametrize("degrees", [[1], [0, 1], [2], [0, 1, 2], [0, 1, 2, 3], [0, 4]])
def test_every_tail_of_points_and_columns_is_written_and_nothing_else(degrees):
    for points in (1, 2, 7, 8, 15, 16, 17, 31, 33, 255, 256, 257, 300):
        x = vectors(points)
        want = spherical_harmonics_reference(x, TABLE, degrees, True)
        got = spherical_harmonics(x, TABLE, degrees, True)
        assert_close(got, want, **tolerance(torch.float64, terms=20))
        single = spherical_harmonics(x.float(), TABLE.float(), degrees, True)
        assert_close(single, want.float(), **tolerance(torch.float32, terms=20))
        assert_agrees(x, TABLE, degrees, True, terms=1000)


def test_rows_written_past_the_caches_are_those_of_few_points():
    x, table = vectors(300_001, torch.float32), TABLE.float()
    few = torch.cat([spherical_harmonics(part, table, range(5), True) for part in x.split(10_000)])
    for _ in range(2):  # only memory that was kept is written past the caches
        assert_close(spherical_harmonics(x, table, range(5), True), few, rtol=0, atol=0)


def test_degree_zero_is_constant():
    x = vectors(37).requires_grad_()
    values = spherical_harmonics(x, TABLE, [0], True)
    assert_close(values.detach(), torch.ones(37, 1, dtype=torch.float64), rtol=0, atol=0)
    (slope,) = torch.autograd.grad(values.sum(), x)
    assert_close(slope, torch.zeros_like(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalize", [True, False])
def test_at_zero_values_and_derivatives_are_those_of_the_polynomials(normalize, dtype):
    x = vectors(40, dtype)
    x[::3] = 0
    assert_agrees(x, TABLE.to(dtype), range(5), normalize, terms=100)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_of_the_whole_range_of_the_type_are_divided_by(dtype):
    info = torch.finfo(dtype)
    lengths = [info.smallest_normal / 64, info.smallest_normal, info.eps, 1.0, info.max / 4]
    table = TABLE.to(dtype)
    want = spherical_harmonics(vectors(20, dtype), table, range(5), True)
    for length in lengths:
        # Numbers that are not normal have fewer digits.
        digits = 20 * info.eps if length >= info.smallest_normal else 0.01
        got = spherical_harmonics(
            length * torch.nn.functional.normalize(vectors(20, dtype)), table, range(5), True
        )
        assert_close(got, want, rtol=0, atol=10 * digits)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_vector_that_is_no_vector_spoils_its_row_and_no_other(bad):
    x = vectors(20)
    want = spherical_harmonics(x, TABLE, [1, 2], True)
    x[5, 1] = bad
    got = spherical_harmonics(x, TABLE, [1, 2], True)
    assert got[5].isnan().any()
    rest = torch.arange(20) != 5
    assert_close(got[rest], want[rest], rtol=0, atol=0)


def test_points_are_batched_but_not_tables():
    x = vectors(5)
    tables = torch.stack([TABLE, -TABLE])
    with pytest.raises(NotImplementedError, match="can batch x here, but not table"):
        torch.func.vmap(lambda t: spherical_harmonics(x, t, [1], True))(tables)
