"""Which irreps products couple: closed forms, and that the check can fail."""

from itertools import product as pairs
from math import pi, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import equigeo.tensor_products as tp
from equigeo.reps import Irreps
from equigeo.tensor_products import interactability
from equigeo.tensor_products.analysis.compared_product import compared_product, compared_products
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


@pytest.mark.parametrize("method", ["grid", "fourier", "paths"])
@pytest.mark.parametrize("lmax", [1, 2, 3, 5])
def test_gaunt_products_couple_even_triples_by_the_symbol_of_zero_orders(lmax, method):
    product = tp.GauntTensorProduct(lmax, lmax, 2 * lmax, method, "integral")
    assert_equals(degrees(interactability(product)), gaunt, lmax)


@pytest.mark.parametrize("method", ["grid", "paths"])
@pytest.mark.parametrize("lmax", [1, 2, 3, 5])
def test_curl_products_couple_odd_triples_by_the_symbol_of_orders_one(lmax, method):
    product = tp.CurlTensorProduct(lmax, lmax, 2 * lmax, method, "integral")
    assert_equals(degrees(interactability(product)), curl, lmax)


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
    assert {t for t in triples(lmax, lmax, 2 * lmax) if allowed(*t)} == degree_triples(found)
    for (_, _, (l3, _)), value in found.items():
        assert value.count_nonzero() == 1  # each path has its own output
        assert abs(value.sum().item() - sqrt(2 * l3 + 1)) < EXACT * 10  # component normalisation


def degree_triples(found):
    return {(a[0], b[0], c[0]) for a, b, c in found}


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
    with pytest.raises(ValueError, match=r"must be equivariant under O\(3\)"):
        interactability(Broken(irreps_out, fn))


def test_the_cross_product_is_its_coupling_times_root_six():
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


def test_a_product_of_nothing_couples_nothing():
    assert interactability(tp.FullTensorProduct("", "0e")) == {}


IRREPS = st.lists(
    st.tuples(st.integers(0, 2), st.tuples(st.integers(0, 2), st.sampled_from([1, -1]))), max_size=3
)


@given(IRREPS, IRREPS)
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
