"""Degrees of freedom, couplings of irreps, and the comparison of products."""

from itertools import product as pairs
from math import pi, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import equigeo.tensor_products as tp
from equigeo.reps import Irreps
from equigeo.tensor_products import expressivity, interactability
from equigeo.tensor_products.analysis.coefficients import in_double, path_coefficients
from equigeo.tensor_products.analysis.compare import check_couplings
from equigeo.tensor_products.analysis.compared_product import (
    RestrictedProduct,
    compared_inputs,
    compared_product,
    compared_products,
    published_freedom,
)
from tests.tensor_products.path_helpers import count_paths, irreps
from tests.tensor_products.symbols import allowed, wigner_3j_symbol, wigner_6j_symbol
from tests.wrong_inputs import refused

EXACT = 1e-12  # of the largest coefficient


def degrees(found):
    """Coefficients by degrees, for products of one copy each."""
    return {(a[0], b[0], c[0]): value.item() for (a, b, c), value in found.items()}


def triples(lmax1, lmax2, lmax3):
    return pairs(range(lmax1 + 1), range(lmax2 + 1), range(lmax3 + 1))


def assert_equals(found, formula, lmax):
    expected = {t: formula(*t) for t in triples(lmax, lmax, 2 * lmax)}
    scale = max(map(abs, expected.values()))
    expected = {t: value for t, value in expected.items() if abs(value) > 1e-9 * scale}
    assert found.keys() == expected.keys()
    for triple, value in expected.items():
        assert abs(found[triple] - value) <= EXACT * scale, triple


def gaunt(l1, l2, l3):
    root = sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1) / (4 * pi))
    return abs(wigner_3j_symbol(l1, l2, l3, 0, 0, 0)) * root


def curl(l1, l2, l3):
    if (l1 + l2 + l3) % 2 == 0 or min(l1, l2) == 0:
        return 0.0
    slopes = l1 * (l1 + 1) * l2 * (l2 + 1)
    root = sqrt(slopes * (2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1) / (4 * pi))
    return abs(wigner_3j_symbol(l1, l2, l3, 1, -1, 0)) * root


@pytest.mark.parametrize(
    ("make", "method", "formula"),
    [
        *((tp.GauntTensorProduct, method, gaunt) for method in ("grid", "fourier", "paths")),
        *((tp.CurlTensorProduct, method, curl) for method in ("grid", "paths")),
    ],
)
@pytest.mark.parametrize("lmax", [1, 2, 3, 5])
def test_products_of_signals_couple_by_3j_symbols(make, method, formula, lmax):
    found = interactability(make(lmax, lmax, 2 * lmax, method, "integral"))
    assert_equals(degrees(found), formula, lmax)


@pytest.mark.parametrize(("lmax", "t"), [(1, 1), (2, 2), (2, 3), (3, 3), (4, 4)])
def test_matrix_products_couple_by_the_6j_symbol(lmax, t):
    product = tp.MatrixTensorProduct(lmax, lmax, 2 * lmax, t)

    def formula(l1, l2, l3):
        return (-1) ** l3 * wigner_6j_symbol(l1, l2, l3, t, t, t)

    assert_equals(degrees(interactability(product)), formula, lmax)


@pytest.mark.parametrize("method", ["dense", "sparse"])
@pytest.mark.parametrize("lmax", [1, 2, 4])
def test_clebsch_gordan_products_couple_every_triple(lmax, method):
    signal = Irreps.signal(lmax)
    found = interactability(tp.FullTensorProduct(signal, signal, method=method))
    coupled = {(a[0], b[0], c[0]) for a, b, c in found}
    assert coupled == {t for t in triples(lmax, lmax, 2 * lmax) if allowed(*t)}
    for (_, _, (l3, _)), value in found.items():
        assert value.count_nonzero() == 1  # each path has its own output
        assert abs(value.sum().item() - sqrt(2 * l3 + 1)) < EXACT * 10  # component normalization


def test_parities_multiply():
    found = interactability(tp.GauntTensorProduct(1, 1, 2, parity1=-1, parity2=1))
    assert found
    assert all(a[1] * b[1] == c[1] for a, b, c in found)


@pytest.mark.parametrize("setting", ["siso", "simo", "mimo"])
@pytest.mark.parametrize("name", compared_products())
@pytest.mark.parametrize("lmax", [1, 2, 3])
def test_every_product_is_a_sum_of_couplings(name, setting, lmax):
    interactability(compared_product(name, lmax, setting))  # raises beyond 1e-12


class Broken(tp.Product):
    """Bilinear, but no sum of couplings between the irreps it declares."""

    def __init__(self, irreps_out, fn):
        super().__init__(Irreps("1o"), Irreps("1o"), Irreps(irreps_out))
        self.fn = fn

    def forward(self, x, y):
        return self.fn(*torch.broadcast_tensors(x, y))


@pytest.mark.parametrize(
    ("irreps_out", "fn"),
    [
        ("1o", torch.linalg.cross),  # the cross product of vectors is a pseudovector
        ("1e", lambda x, y: torch.linalg.cross(x, y) + 1e-9 * x * y),
        ("1e", lambda x, y: x * y),
        ("0e", lambda x, y: x[..., :1] * y[..., :1]),
    ],
)
def test_a_product_that_is_not_equivariant_is_refused(irreps_out, fn):
    refused(r"must be equivariant under O\(3\)", interactability, Broken(irreps_out, fn))


def test_cross_product_is_its_coupling_times_root_six():
    found = interactability(Broken("1e", torch.linalg.cross))
    assert degrees(found) == pytest.approx({(1, 1, 1): sqrt(6)})


def test_weights_open_paths():
    product = tp.FullyConnectedTensorProduct("2x0e+1o", "0e+1o", "3x0e+1o+1e")
    found = interactability(product)
    assert {(a[0], b[0], c[0]): tuple(value.shape) for (a, b, c), value in found.items()} == {
        (0, 0, 0): (2, 1, 3),
        (1, 1, 0): (1, 1, 3),
        (0, 1, 1): (2, 1, 1),
        (1, 0, 1): (1, 1, 1),
        (1, 1, 1): (1, 1, 1),
    }
    assert not interactability(product, torch.zeros(product.weight_numel))


def test_wrong_arguments_raise():
    refused("multiple of a coupling", interactability, Broken("1e", lambda x, y: x * torch.nan))
    product = tp.FullyConnectedTensorProduct("0e", "0e", "0e")
    refused(r"weight must be \(1,\), got \(2,\)", interactability, product, torch.ones(2))
    product = tp.GauntTensorProduct(1, 1, 2)
    refused("channels must be at least 1, got 0", expressivity, product, channels=0)
    refused("lmax, batch and repetitions must be at least 1, got 0", tp.compare, 0)
    refused("must be at least 1", tp.compare, 1, batch=0)
    message = 'setting must be "siso", "simo" or "mimo", got \'miso\''
    refused(message, tp.compare, 1, setting="miso")
    message = "name must be one of full all, .*, got 'cubic'"
    refused(message, tp.compare, 1, products=["cubic"])
    table = tp.compare(1, products=["full all"], batch=1, repetitions=1)
    refused("matrix", table.__getitem__, "matrix", error=KeyError)


def test_layouts_agree():
    arguments = "2x0e+3x1o", "1x0e+1x1o"
    found = [
        interactability(tp.FullTensorProduct(*arguments, layout=layout))
        for layout in ("mul_ir", "ir_mul")
    ]
    assert found[0].keys() == found[1].keys()
    for triple, value in found[0].items():
        torch.testing.assert_close(found[1][triple], value)


def test_the_product_is_left_as_it_was():
    product = tp.FullyConnectedTensorProduct("0e+1o", "0e+1o", "0e+1o").train()
    before = product.weight.clone()
    interactability(product)
    assert product.weight.dtype == torch.float32
    assert product.training
    assert product.shared_weights
    assert torch.equal(product.weight, before)


def test_product_of_nothing_couples_and_reaches_nothing():
    assert interactability(tp.FullTensorProduct("", "0e")) == {}
    assert expressivity(tp.FullTensorProduct("0e", "")) == 0


@given(irreps | st.just([]), irreps | st.just([]))
@settings(max_examples=15)
def test_full_products_couple_what_the_rules_allow(first, second):
    first, second = Irreps(first), Irreps(second)
    found = interactability(tp.FullTensorProduct(first, second))
    expected = {
        (a, b, (l, a[1] * b[1]))
        for mul1, a in first
        for mul2, b in second
        for l in range(abs(a[0] - b[0]), a[0] + b[0] + 1)
        if mul1 and mul2
    }
    assert found.keys() == expected


SIGNALS = {"gaunt": tp.GauntTensorProduct, "matrix": tp.MatrixTensorProduct}


def freedom(name, lmax, setting):
    natural = compared_inputs(lmax, setting)
    return expressivity(compared_product(name, lmax, setting), natural, natural)


@pytest.mark.parametrize("kind", SIGNALS)
def test_products_that_factorise_have_four_l_plus_one(kind):
    full = [expressivity(SIGNALS[kind](l, l, 2 * l)) for l in range(1, 9)]
    truncated = [expressivity(SIGNALS[kind](l, l, l)) for l in range(1, 9)]
    assert full == [5, 9, 13, 17, 21, 25, 29, 33]
    assert truncated == [4, 7, 10, 13, 16, 19, 22, 25]


@pytest.mark.parametrize("lmax", [1, 2, 3, 4, 5, 6, 7, 8])
def test_clebsch_gordan_products_have_one_for_each_path(lmax):
    assert freedom("full all", lmax, "mimo") == count_paths(lmax)
    assert freedom("full even", lmax, "mimo") == count_paths(lmax, "even")


@pytest.mark.parametrize("lmax", [1, 2, 3, 6])
def test_weights_on_every_path_add_nothing_to_a_universal_product(lmax):
    signal = Irreps.signal(lmax)
    both = Irreps([*Irreps.signal(2 * lmax), *Irreps.signal(2 * lmax, -1)])
    connected = tp.FullyConnectedTensorProduct(signal, signal, both)
    channelwise = tp.ChannelwiseTensorProduct(signal, signal, both)
    assert expressivity(connected) == expressivity(channelwise) == count_paths(lmax)


@pytest.mark.parametrize("lmax", range(1, 9))
def test_single_inputs(lmax):
    names, every = ("full all", "full even", "gaunt grid", "matrix"), 2 * lmax + 1
    simo = [freedom(name, lmax, "simo") for name in names]
    assert simo == [every, lmax + 1, lmax + 1, every]
    even = int(lmax % 2 == 0)
    assert [freedom(name, lmax, "siso") for name in names] == [1, even, even, 1]
    assert freedom("curl grid", lmax, "siso") == 1 - even


def test_freedom_of_curl_products_and_vector_signals():
    paths = [count_paths(lmax, "odd") for lmax in range(1, 9)]
    found = [expressivity(tp.CurlTensorProduct(l, l, 2 * l)) for l in range(1, 9)]
    # Degree 0 is idle on all sides and 2 L in the output: L + L + (2 L - 1) irreps, less two.
    assert found == [min(4 * l - 3, n) for l, n in enumerate(paths, start=1)]
    names = ("vector_signal", "full all")
    found = {l: [freedom(name, l, "mimo") for name in names] for l in (1, 2, 3)}
    assert found == {1: [6, 6], 2: [19, 19], 3: [33, 44]}
    assert [freedom("vector_signal", lmax, "simo") for lmax in (1, 2, 3, 4)] == [3, 5, 7, 9]
    assert [freedom("vector_signal", lmax, "siso") for lmax in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_multiplicities_multiply():
    product = tp.FullTensorProduct("2x0e+3x1o", "0e+2x1o")
    whole = "2x0e+3x1o", "0e+2x1o", "4x0e+2x1o+1e+5x2e"
    # 0 0 0, 0 1 1, 1 0 1, 1 1 0, 1 1 1, 1 1 2
    expected = 2 * 1 * 4 + 2 * 2 * 2 + 3 * 1 * 2 + 3 * 2 * 4 + 3 * 2 * 1 + 3 * 2 * 5
    assert expressivity(product, *whole) == expected
    connected = tp.FullyConnectedTensorProduct(*whole)
    assert expressivity(connected, *whole) == expected


def test_channels_buy_freedom_back():
    product = tp.GauntTensorProduct(3, 3, 6)
    found = [expressivity(product, channels=channels) for channels in (1, 2, 3, 4)]
    assert found == [13, 25, 30, 30]  # two outputs of degree 6 share their only path


@pytest.mark.parametrize("channels", [1, 2])
def test_the_weights_of_a_layer_count_like_the_linear_layers_around_its_product(channels):
    sides = Irreps.signal(2), Irreps.signal(2), Irreps.signal(4)
    layer = tp.make("gaunt", *sides, channels=channels)
    assert expressivity(layer) == expressivity(tp.GauntTensorProduct(2, 2, 4), channels=channels)


@pytest.mark.parametrize("name", ["full", "full_sparse", "fully_connected", "channelwise"])
def test_universal_products_reach_everything_by_any_name(name):
    sides = Irreps("0e+1o+2e"), Irreps("0e+1o"), Irreps("0e+1o+1e+2e+2o")
    assert expressivity(tp.make(name, *sides)) == 9


def test_a_bound_that_every_product_keeps():
    sides = Irreps("0e+1o+1e+2e"), Irreps("0o+1o+2e"), Irreps("0e+0o+1o+1e+2e+2o")
    bound = expressivity(tp.make("fully_connected", *sides))
    for name in tp.product_names():
        few = {"channels": 1} if "signal" in name or name in SIGNALS or "curl" in name else {}
        assert 0 < expressivity(tp.make(name, *sides, **few)) <= bound


def test_published_degrees_of_freedom():
    for name, mimo, simo in (
        ("full all", 44, 7),
        ("full_sparse even", 44, 7),
        ("gaunt fourier", 13, 4),
        ("matrix", 13, 7),
        ("vector_signal", 19, None),
        ("curl grid", None, None),
    ):
        assert [published_freedom(name, 3, kind) for kind in ("mimo", "simo")] == [mimo, simo]
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


def test_float64_is_checked_more_strictly_than_float32():
    product = compared_product("gaunt grid", 2, "mimo")
    kappa = path_coefficients(in_double(product))
    x, y = torch.randn(2, 8, 9, dtype=torch.float64)
    check_couplings(product.double(), kappa, x, y)
    slightly_wrong = kappa * (1 + 1e-9)
    check_couplings(product.float(), slightly_wrong, x.float(), y.float())
    with pytest.raises(RuntimeError, match="must be a sum of couplings"):
        check_couplings(product.double(), slightly_wrong + 1e-9, x, y)


def test_a_restricted_product_is_a_part_of_the_whole():
    whole = tp.GauntTensorProduct(2, 1, 3)
    part = RestrictedProduct(whole, "0e+2e", "1o", "1o+3o")
    x, y = torch.randn(5, 6), torch.randn(5, 3)
    zeros = torch.zeros(5, 3)
    full = whole(torch.cat([x[:, :1], zeros, x[:, 1:]], 1), torch.cat([zeros[:, :1], y], 1))
    assert torch.equal(part(x, y), torch.cat([full[:, 1:4], full[:, 9:]], 1))
    refused("irreps_out must be terms of", RestrictedProduct, whole, "0e", "1o", Irreps("3e"))


def test_another_default_device_changes_nothing():
    gaunt, weighted = tp.GauntTensorProduct(2, 2, 4), tp.FullyConnectedTensorProduct(*["0e+1o"] * 3)
    before = tp.expressivity(gaunt), tp.expressivity(weighted)
    with torch.device("meta"):
        assert (tp.expressivity(gaunt), tp.expressivity(weighted)) == before
        (row,) = tp.compare(1, products=["gaunt grid"], batch=2, repetitions=1).rows
    assert row.degrees_of_freedom == 5
