"""Degrees of freedom: the closed forms, and two ways to the same Jacobian."""

import pytest

import equigeo.tensor_products as tp
from equigeo.reps import Irreps
from equigeo.tensor_products import expressivity
from equigeo.tensor_products.analysis.compared_product import compared_inputs, compared_product
from tests.tensor_products.path_helpers import count_paths

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
    names = ("full all", "full even", "gaunt grid", "matrix")
    assert [freedom(name, lmax, "simo") for name in names] == [
        2 * lmax + 1,
        lmax + 1,
        lmax + 1,
        2 * lmax + 1,
    ]
    even = int(lmax % 2 == 0)
    assert [freedom(name, lmax, "siso") for name in names] == [1, even, even, 1]
    assert freedom("curl grid", lmax, "siso") == 1 - even


def test_curl_products():
    paths = [count_paths(lmax, "odd") for lmax in range(1, 9)]
    found = [expressivity(tp.CurlTensorProduct(l, l, 2 * l)) for l in range(1, 9)]
    # Degree 0 is idle on all sides and 2 L in the output: L + L + (2 L - 1) irreps, less two.
    assert found == [min(4 * l - 3, n) for l, n in enumerate(paths, start=1)]


def test_vector_signals_reach_everything_up_to_degree_two():
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
        assert 0 < expressivity(tp.make(name, *sides, **few(name))) <= bound


def few(name):
    return {"channels": 1} if "signal" in name or name in SIGNALS or "curl" in name else {}


def test_a_product_of_nothing_reaches_nothing():
    assert expressivity(tp.FullTensorProduct("0e", "")) == 0


def test_no_channels_are_refused():
    with pytest.raises(ValueError, match="channels must be at least 1, got 0"):
        expressivity(tp.GauntTensorProduct(1, 1, 2), channels=0)
