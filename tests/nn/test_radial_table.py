"""Splines of radial functions: errors at and between knots, smoothness, ends and copies."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from scipy.interpolate import BSpline
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from equigeo.nn import radial_table
from equigeo.nn.radial_table import RadialTable, RadialTables, basis_matrix
from equigeo.ops.products.spline_conv import spline_weights
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

INTERVAL = (0.5, 4.5)
DTYPES = (torch.float32, torch.float64)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def waves(r: Tensor) -> Tensor:
    """Smooth functions (n, 3) of distances (n,)."""
    return torch.stack([(2 * r).sin(), (-r).exp(), r.cos() / r], dim=1)


def fitted(dtype: torch.dtype = torch.float64, function=waves, ends=INTERVAL) -> RadialTable:
    return RadialTable.fit(function, ends, dtype)


def places(pieces: int, *within: float) -> Tensor:
    """Distances at the same places within every piece, which are equal in square roots."""
    start, end = (x**0.5 for x in INTERVAL)
    found = torch.arange(pieces)[:, None] + torch.tensor(within, dtype=torch.float64)
    return (start + (end - start) / pieces * found.flatten()).square()


def slopes(function, r: Tensor) -> Tensor:
    return torch.autograd.functional.jvp(function, r, torch.ones_like(r))[1]


@pytest.mark.parametrize("degree", range(1, 10))
def test_functions_of_a_piece_are_sums_of_those_of_scipy(degree):
    element = BSpline.basis_element(range(degree + 2), extrapolate=False)
    t = torch.linspace(0, 1, 9, dtype=torch.float64)[:-1]
    values = t[:, None] ** torch.arange(degree + 1) @ basis_matrix(degree)
    each = [torch.from_numpy(element((t + degree - n).numpy())) for n in range(degree + 1)]
    for n, found in enumerate(values.T, 1):
        expected = torch.stack(each[n:]).sum(0)
        # Coefficients of powers cancel: they are up to 2^degree times the values.
        assert_close(found, expected, **tolerance(torch.float64, degree + 1, 2**degree))


@pytest.mark.parametrize("within", [(0.0,), (0.13, 0.35, 0.9)], ids=["knots", "between"])
@every_dtype
def test_values_and_derivatives_have_the_stated_errors(dtype, within):
    table = fitted(dtype)
    r = places(table.pieces, *within).to(dtype)
    values, derivatives = waves(r.double()), slopes(waves, r.double())
    rounding = tolerance(dtype)["atol"]
    largest, steepest = float(values.abs().max()), float(derivatives.abs().max())
    stated = radial_table._TOLERANCE[dtype]
    assert table.error < stated[0]
    got = table(r)
    assert got.dtype == dtype
    # Errors were measured elsewhere in the same pieces, hence the factor.
    bound = 2 * stated[0] * largest + rounding * (largest + steepest)
    assert_close(got.double(), values, rtol=0, atol=bound)
    bound = (2 * stated[1] + rounding) * steepest
    assert_close(slopes(table, r).double(), derivatives, rtol=0, atol=bound)


@every_dtype
def test_two_derivatives_are_continuous_at_knots(dtype):
    table = fitted(dtype)
    knot = torch.arange(1, table.pieces)
    ends = torch.ones(len(knot), dtype=dtype), torch.zeros(len(knot), dtype=dtype)
    for order in range(3):
        before, after = (
            spline_weights(t, first, table.basis, table.coefficients, order=order)
            for t, first in zip(ends, (knot - 1, knot), strict=True)
        )
        # The same sums of coefficients, by powers whose derivatives have larger factors.
        assert_close(before, after, **tolerance(dtype, len(table.basis), 2.0**order))


def test_distances_beyond_the_ends_have_the_values_of_the_ends():
    table = fitted()
    far = torch.tensor([0.0, 0.4999, 4.5001, 1e9, torch.inf], dtype=torch.float64)
    low, high = table(torch.tensor(INTERVAL, dtype=torch.float64))
    assert torch.equal(table(far), torch.stack([low, low, high, high, high]))
    assert not slopes(table, far).any()
    for lengths, covered in ((far[2:], True), (far[1:], False), (far[:0], True)):
        assert table.covers(lengths) == covered
    assert not table.covers(torch.tensor([1.0, torch.nan]))
    assert table.covers(torch.ones(2, device="meta"))


def test_pieces_are_shorter_at_short_distances_where_functions_are_steeper():
    def steep(r: Tensor) -> Tensor:
        return waves(r) / r[:, None] ** 2

    table = fitted(torch.float32, steep)
    equal, _ = radial_table._fit(steep, INTERVAL, False, torch.float32, 0)
    assert table.pieces < len(equal) - radial_table._DEGREE[torch.float32]
    knots = places(table.pieces, 0.0)
    _, first, _, _ = table.spline(knots + 1e-9)
    assert first.tolist() == list(range(table.pieces))


def test_programs_raise_for_distances_that_are_not_tabulated():
    table = fitted()

    def values(r: Tensor) -> Tensor:
        return table(r) if table.covers(r) else waves(r)

    r = places(4, 0.2)
    program = make_fx(values, tracing_mode="symbolic", _allow_non_fake_inputs=True)(r)
    compiled = torch.compile(values, backend="aot_eager", fullgraph=True, dynamic=True)
    short = torch.cat([r, r[:1] / 2])
    expected = r"must not be shorter than 0\.11 of the cutoff: .*restore"
    for function in (program, compiled):
        for given in (r, r.flip(0)[1:], r[:0]):
            assert torch.equal(function(given), table(given))
        for wrong in (short, r * torch.nan):
            refused(expected, function, wrong, error=RuntimeError)
    # Rows of a batch have no values to decide by, and a recorded check has no rule for batches.
    rows = torch.stack([short, short])
    for batched in (torch.vmap(values), make_fx(torch.vmap(values))(rows)):
        assert torch.equal(batched(rows)[1], waves(short))


def test_distances_that_are_no_numbers_have_values_that_are_none():
    table = fitted(torch.float32)
    found = table(torch.tensor([1.0, torch.nan, 2.0]))
    assert found.isnan().all(dim=1).tolist() == [False, True, False]
    assert not found[::2].isnan().any()


@every_dtype
def test_functions_are_smooth_between_breaks(dtype):
    def bent(r: Tensor) -> Tensor:
        return waves(r) + ((r - 2.3).clamp(min=0) ** 2)[:, None]

    table = fitted(dtype, bent, (INTERVAL[0], 2.3, INTERVAL[1]))
    one = fitted(dtype)
    assert table.pieces <= 4 * one.pieces
    r = torch.cat([places(101, 0.0, 0.4), torch.tensor([2.3, 4.5, 7.0], dtype=torch.float64)])
    found, expected = table(r.to(dtype)).double(), bent(r.clamp(max=4.5))
    bound = 1e-6 if dtype == torch.float32 else 2e-11
    assert_close(found, expected, rtol=bound, atol=bound)
    refused("splines of 1024 pieces have errors", fitted, dtype, bent)


def test_functions_that_need_more_pieces_raise(monkeypatch):
    monkeypatch.setattr(radial_table, "_PIECES", (64, 96))
    message = r"splines of 96 pieces have errors of \de[+-]\d\d and in derivatives of .*, at most "
    refused(
        message + "1e-12 and 1e-11 are allowed", fitted, torch.float64, lambda r: waves(200 * r)
    )
    message = "splines of 96 pieces have errors of nan"
    refused(message, fitted, torch.float32, lambda r: waves(r) * torch.nan)


def waves_of(r: Tensor, numbers: Tensor) -> Tensor:
    """Functions (n, 3) of distances (n,) and numbers; no splines for number 3."""
    steep = torch.where(numbers == 3, 200.0, 1.0 + 0.1 * numbers)
    return waves(steep * r)


@every_dtype
@pytest.mark.parametrize("ends", [INTERVAL, (0.5, 2.3, 4.5)], ids=["one", "two"])
def test_tables_grow_by_numbers_that_occur(dtype, ends):
    table = RadialTables(waves_of, ends, dtype, 6)
    r = places(64, 0.0, 0.3)
    numbers = torch.tensor([0, 4, 1, 2]).repeat(len(r) // 4)
    assert table.covers(r, torch.zeros_like(numbers))
    assert not table.covers(r, numbers)
    with torch.inference_mode():
        table.grow([1, 4])
        table.grow([2, 3, 4])
    assert table.covers(r, numbers)
    assert not table.covers(r, numbers.clamp(min=3))  # where splines need more pieces
    assert not table.covers(r - 0.1, numbers)
    rounding = tolerance(dtype)["atol"]
    bound = 1e-6 if dtype == torch.float32 else 2e-12 + rounding
    given = r.to(dtype).requires_grad_()
    for twin in (table, copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        # Numbers come in the dtype of distances.
        found = twin(given, numbers.to(dtype))
        assert_close(found.double(), waves_of(r, numbers), rtol=bound, atol=bound)
        torch.autograd.grad(found.sum(), given)


def test_tables_grow_in_threads_and_after_interrupts(monkeypatch):
    table = RadialTables(waves_of, INTERVAL, torch.float32, 8)
    fit = RadialTables._fit

    def interrupted(self, number, pieces):
        if number == 2:
            raise KeyboardInterrupt
        return fit(self, number, pieces)

    with monkeypatch.context() as patch:
        patch.setattr(RadialTables, "_fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.grow([1, 2])
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(table.grow, ([1, 4], [2, 1], [5, 6])))
    r = places(64, 0.3)
    for number in (0, 1, 2, 4, 5, 6):
        numbers = torch.full((len(r),), number)
        assert table.covers(r, numbers)
        # 1e-7 between knots, and rounding to float32.
        assert_close(table(r, numbers).double(), waves_of(r, numbers), rtol=1e-6, atol=1e-6)


def test_tables_in_other_dtypes_cover_no_more_digits_than_they_have():
    r = places(64, 0.3)
    narrow, wide = (RadialTable.fit(waves, (0.5, 2.3, 4.5), x) for x in (torch.float32, r.dtype))
    assert narrow.covers(r)
    assert wide.float().covers(r)
    # Rounding to float32, of the sum of ten terms.
    assert_close(wide(r), waves(r), rtol=1e-6, atol=1e-6, check_dtype=False)
    assert not narrow.double().covers(r)
    assert not narrow.bfloat16().covers(r)
    assert narrow.float().covers(r)
    assert {x.dtype for x in (narrow.segments, narrow.breaks)} == {torch.float64}


def test_tables_stop_growing_at_a_limit_of_memory(monkeypatch):
    table = RadialTables(waves_of, INTERVAL, torch.float32, 6)
    monkeypatch.setattr(radial_table, "_MOST_BYTES", int(1.5 * table.table.coefficients.nbytes))
    with pytest.warns(UserWarning, match="2 tables of a radial network take more than 0 MiB"):
        table.grow([1, 2])
    r = places(64, 0.3)
    covered = [table.covers(r, torch.full((len(r),), number)) for number in range(3)]
    assert covered == [True, True, False]


def test_a_table_is_copied_and_pickled_and_no_state():
    table = fitted(torch.float32)
    r = places(table.pieces, 0.2).float()
    for twin in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert torch.equal(twin(r), table(r))
        assert repr(twin) == repr(table)
    assert not table.state_dict()
    assert not list(table.parameters())
