"""The comparison: published counts, empty products, and that nothing wrong is timed."""

import pytest
import torch

import equigeo.tensor_products as tp
from equigeo.reps import Irreps
from equigeo.tensor_products.analysis.coefficients import in_double, path_coefficients
from equigeo.tensor_products.analysis.compare import check_couplings
from equigeo.tensor_products.analysis.compared_product import compared_product, published_freedom
from tests.tensor_products.path_helpers import count_paths


def test_published_path_counts():
    counts = {parity: [count_paths(l, parity) for l in range(1, 6)] for parity in PATHS}
    assert counts == PATHS


PATHS = {"all": [6, 19, 44, 85, 146], "even": [5, 14, 30, 55, 91], "odd": [1, 5, 14, 30, 55]}


def test_published_degrees_of_freedom():
    names = (
        "full all",
        "full_sparse even",
        "gaunt fourier",
        "matrix",
        "vector_signal",
        "curl grid",
    )
    assert [published_freedom(name, 3, "mimo") for name in names] == [44, 44, 13, 13, 19, None]
    assert [published_freedom(name, 3, "simo") for name in names] == [7, 7, 4, 7, None, None]
    assert [published_freedom("gaunt grid", lmax, "siso") for lmax in (1, 2)] == [0, 1]


@pytest.mark.parametrize(
    ("lmax", "counts"),
    [
        (1, (100, 73, 21, 231, 180)),
        (2, (1225, 798, 162, 1115, 1200)),
        (3, (7056, 4326, 708, 3115, 4312)),
    ],
)
def test_multiply_adds_are_those_of_the_closed_forms(lmax, counts):
    names = ("full all", "full even", "full_sparse even", "gaunt grid", "matrix")
    table = tp.compare(lmax, products=names, batch=2, repetitions=1)
    assert tuple(table[name].multiply_adds for name in names) == counts


def test_one_row_for_each_product():
    table = tp.compare(2, "mimo", batch=4, repetitions=1)
    assert {row.product: (row.paths, row.degrees_of_freedom) for row in table.rows[:8]} == {
        "full all": (19, 19),
        "full even": (14, 14),
        "full_sparse even": (14, 14),
        "gaunt grid": (14, 9),
        "gaunt fourier": (14, 9),
        "gaunt paths": (14, 9),
        "curl grid": (5, 5),
        "curl paths": (5, 5),
    }
    assert all(row.milliseconds > 0 and row.multiply_adds > 0 for row in table.rows)
    assert table["gaunt grid"].bytes == 4 * (9 + 9 + 25)
    gaunt, full = table["gaunt grid"], table["full even"]
    assert gaunt.microseconds_per_freedom == gaunt.microseconds_per_published_freedom
    assert full.microseconds_per_published_freedom == pytest.approx(
        1e3 * full.milliseconds / count_paths(2)
    )
    assert full.microseconds_per_freedom == pytest.approx(1e3 * full.milliseconds / 14)


@pytest.mark.parametrize("lmax", [1, 3])
def test_products_that_make_nothing_are_not_timed(lmax):
    table = tp.compare(lmax, "siso", batch=2, repetitions=1)
    empty = {row.product for row in table.rows if row.milliseconds is None}
    assert empty == {"full even", "full_sparse even", "gaunt grid", "gaunt fourier", "gaunt paths"}
    assert all((row.paths == 0) == (row.milliseconds is None) for row in table.rows)


def test_the_table_can_be_read():
    lines = str(tp.compare(1, "siso", products=["gaunt grid"], batch=2)).splitlines()
    assert lines[0].startswith("L = 1, siso, batch 2, float32 on cpu")
    assert lines[1].split() == [
        *("product", "paths", "freedom", "published", "multiply-adds"),
        *("bytes", "ms", "us/freedom", "us/published"),
    ]
    assert lines[2].split()[:5] == ["gaunt", "grid", "0", "0", "0"]
    assert len({len(line) for line in lines[1:]}) == 1


def test_a_row_that_is_not_there_is_a_key_error():
    with pytest.raises(KeyError, match="matrix"):
        tp.compare(1, products=["full all"], batch=1, repetitions=1)["matrix"]


def test_float64_is_checked_more_strictly_than_float32():
    product = compared_product("gaunt grid", 2, "mimo")
    kappa = path_coefficients(in_double(product))
    x, y = torch.randn(2, 8, 9, dtype=torch.float64)
    check_couplings(product.double(), kappa, x, y)
    slightly_wrong = kappa * (1 + 1e-9)
    check_couplings(product.float(), slightly_wrong, x.float(), y.float())
    with pytest.raises(RuntimeError, match="must be a sum of couplings"):
        check_couplings(product.double(), slightly_wrong + 1e-9, x, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lmax": 0}, "lmax, batch and repetitions must be at least 1, got 0"),
        ({"batch": 0}, "must be at least 1"),
        ({"setting": "miso"}, 'setting must be "siso", "simo" or "mimo", got \'miso\''),
        ({"products": ["cubic"]}, "name must be one of full all, .*, got 'cubic'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tp.compare(**{"lmax": 1, **arguments})


def test_a_restricted_product_is_a_part_of_the_whole():
    from equigeo.tensor_products.analysis.compared_product import RestrictedProduct

    whole = tp.GauntTensorProduct(2, 1, 3)
    part = RestrictedProduct(whole, "0e+2e", "1o", "1o+3o")
    x, y = torch.randn(5, 6), torch.randn(5, 3)
    zeros = torch.zeros(5, 3)
    full = whole(torch.cat([x[:, :1], zeros, x[:, 1:]], 1), torch.cat([zeros[:, :1], y], 1))
    assert torch.equal(part(x, y), torch.cat([full[:, 1:4], full[:, 9:]], 1))
    with pytest.raises(ValueError, match="irreps_out must be terms of"):
        RestrictedProduct(whole, "0e", "1o", Irreps("3e"))


def test_another_default_device_changes_nothing():
    gaunt, weighted = tp.GauntTensorProduct(2, 2, 4), tp.FullyConnectedTensorProduct(*["0e+1o"] * 3)
    before = tp.expressivity(gaunt), tp.expressivity(weighted)
    with torch.device("meta"):
        assert (tp.expressivity(gaunt), tp.expressivity(weighted)) == before
        (row,) = tp.compare(1, products=["gaunt grid"], batch=2, repetitions=1).rows
    assert row.degrees_of_freedom == 5
