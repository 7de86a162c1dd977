"""Orders and paths: oracles 6 to 8, 16 and 17 of the specification."""

import pytest
import torch
from torch.testing import assert_close

from equigeo.ops import SO2Table
from equigeo.reps.wigner import wigner_3j
from equigeo.testing import tolerance
from tests.tensor_products.so2.so2_paths import SO2Paths, path_coefficients
from tests.tier import tier

F64 = torch.float64


def natural(lmax: int, mmax: int, mul: int = 1) -> SO2Table:
    terms = tuple((mul, l, False) for l in range(lmax + 1))
    return SO2Table(terms, terms, mmax)


def toy_paths(n: int = 19) -> torch.Tensor:
    return torch.cos(2 * torch.arange(1, n + 1, dtype=F64))


def orthogonal(l1: int, l3: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Coefficients with orders above 0 times the root of two, of even and of odd paths."""
    found = path_coefficients(l1, l3) * 2**0.5
    found[:, :, 0] /= 2**0.5
    even = [k for k in range(len(found)) if (l1 + abs(l1 - l3) + k + l3) % 2 == 0]
    odd = [k for k in range(len(found)) if k not in even]
    return found[even, 0], found[odd, 1, 1:]


def test_couplings_with_order_zero_join_one_order_alone():
    for l1, l3 in ((0, 2), (1, 1), (2, 1), (3, 4)):
        for lf in range(abs(l1 - l3), l1 + l3 + 1):
            c = wigner_3j(l1, lf, l3)[:, lf]
            for m1 in range(-l1, l1 + 1):
                for m3 in range(-l3, l3 + 1):
                    kept = m3 == m1 if (l1 + lf + l3) % 2 == 0 else m3 == -m1 != 0
                    assert kept or c[l1 + m1, l3 + m3] == 0


def test_the_change_of_weights_is_orthogonal():
    for l1 in range(6):
        for l3 in range(6):
            for matrix in orthogonal(l1, l3):
                one = torch.eye(len(matrix), dtype=F64)
                assert_close(matrix @ matrix.mT, one, **tolerance(F64, 6))


MIXED = SO2Table(
    ((2, 1, False), (1, 0, True), (3, 2, True), (0, 1, False)),
    ((1, 2, False), (2, 1, True), (2, 3, False)),
    mmax=2,
    complex_weights=False,
)


@pytest.mark.parametrize("table", [natural(3, 3, mul=2), MIXED], ids=["SO3", "O3"])
def test_weights_of_paths_come_back(table):
    paths = SO2Paths(table).double()
    h = toy_paths(paths.numel)
    assert_close(paths.from_matrices(paths.to_matrices(h)), h, **tolerance(F64, 8))


def test_matrices_come_back():
    paths = SO2Paths(natural(3, 2, mul=2)).double()  # orders that paths alone would not drop
    weight = torch.sin(torch.arange(paths.table.weight_numel, dtype=F64))
    assert_close(paths.to_matrices(paths.from_matrices(weight)), weight, **tolerance(F64, 8))


SPANS = [(2, [9, 17, 19]), (4, [25, 57, 75, 83, 85])]


@pytest.mark.parametrize(("lmax", "ranks"), tier([SPANS[0]], SPANS), ids=str)
def test_truncated_matrices_span_a_subspace_of_all_paths(lmax, ranks):
    every = None
    for mmax, rank in enumerate(ranks):
        paths = SO2Paths(natural(lmax, mmax)).double()
        assert paths.table.weight_numel == rank
        span = torch.stack([paths.from_matrices(x) for x in torch.eye(rank, dtype=F64)])
        assert torch.linalg.matrix_rank(span) == rank
        touched = int((span.abs().amax(0) > 1e-12).sum())
        every = paths.numel
        assert touched == ({2: 14, 4: 55}[lmax] if mmax == 0 else every)
    assert every == ranks[-1]


@pytest.mark.parametrize(("lmax", "params", "first", "second"), [
    (1, 6, 6, 6), (2, 19, 17, 19), (3, 44, 34, 42), (4, 85, 57, 75), (5, 146, 86, 118),
    (6, 231, 121, 171),
])  # fmt: skip
def test_numbers_of_matrices(lmax, params, first, second):
    assert natural(lmax, lmax).weight_numel == params == SO2Paths(natural(lmax, lmax)).numel
    assert natural(lmax, 1).weight_numel == first
    assert natural(lmax, min(2, lmax)).weight_numel == second
