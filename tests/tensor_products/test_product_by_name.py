"""Every product by its name: one contract for all."""

import pytest
import torch

import equigeo.tensor_products as tp
from equigeo.nn import Linear
from equigeo.reps import Irreps
from equigeo.testing import assert_equivariant, tolerance
from tests.wrong_inputs import refused

SIDES = "2x0e+1x1o+1x2e", "2x0e+1x0o+2x1o+1x1e", "2x0e+1x0o+2x1o+1x1e+1x2e"
CLOSE = tolerance(torch.float64, 64)  # of pairs of channels and components
NAMES = pytest.mark.parametrize("name", tp.product_names())


def sample(product, *batch, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    dims = product.irreps_in1.dim, product.irreps_in2.dim
    return [torch.randn(*batch, dim, generator=generator, dtype=dtype) for dim in dims]


@NAMES
def test_products_are_equivariant_under_reflections_too(name):
    product = tp.make(name, *SIDES)
    assert_equivariant(product.double(), inputs=sample(product, 5))
    assert_equivariant(product.float(), inputs=sample(product, 5, dtype=torch.float32))


@NAMES
def test_leading_axes_broadcast_and_may_be_empty(name):
    product = tp.make(name, *SIDES).double()
    x, y = sample(product, 3)
    whole = product(x[:, None], y)
    assert whole.shape == (3, 3, product.irreps_out.dim)
    torch.testing.assert_close(whole[2, 1], product(x[2], y[1]))
    assert product(x[:0], y[:0]).shape == (0, product.irreps_out.dim)


@NAMES
def test_state_and_dtype_survive_a_round_trip(name):
    product = tp.make(name, *SIDES).double()
    other = tp.make(name, *SIDES)
    other.load_state_dict(product.state_dict())
    inputs = sample(product, 3)
    rounded = {key: value.float().double() for key, value in product.state_dict().items()}
    product.load_state_dict(rounded)
    torch.testing.assert_close(
        other.half().double().float().double()(*inputs).isfinite().all(), torch.tensor(True)
    )
    other.load_state_dict(rounded)
    torch.testing.assert_close(other(*inputs), product(*inputs), **CLOSE)


@NAMES
def test_products_are_bilinear(name):
    product = tp.make(name, *SIDES).double()
    x, y = sample(product, 4)
    left = product(x[0] + 2 * x[1], y[2] - 3 * y[3])
    right = product(x[0], y[2]) - 3 * product(x[0], y[3])
    right = right + 2 * product(x[1], y[2]) - 6 * product(x[1], y[3])
    torch.testing.assert_close(left, right)


UNREACHABLE = {  # of 0e+1o+2e with itself, and what is reached
    "gaunt": ("0o+1e+2o", "1o"),
    "curl": ("0e+0o+1o+2e", "1e"),
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_what_a_product_cannot_reach_is_zero(name):
    zeros, reached = UNREACHABLE[name]
    product = tp.make(name, "0e+1o+2e", "0e+1o+2e", f"{zeros}+{reached}")
    z = product(*sample(product, 5, dtype=torch.float32))
    assert not z[:, :-3].any()
    assert z[:, -3:].any()


@NAMES
@pytest.mark.parametrize("side", range(3))
def test_features_in_the_other_layout_are_refused(name, side):
    irreps = [Irreps("2x0e+2x1o") for _ in range(3)]
    irreps[side] = irreps[side].with_layout("ir_mul")
    with pytest.raises(ValueError, match="has the layout 'ir_mul'"):
        tp.make(name, *irreps)


@pytest.mark.parametrize("name", sorted(set(tp.product_names()) - {"gaunt", "curl"}))
def test_other_products_reach_even_and_odd_paths(name):
    product = tp.make(name, "0e+1o+2e", "0e+1o+2e", "0e+1o+1e+2e+2o").double()
    z = product(*sample(product, 5))
    assert all(z[:, place].abs().amax() > 1e-3 for place in product.irreps_out.slices())


@NAMES
def test_nothing_makes_zeros(name):
    product = tp.make(name, "2x0e", "", "3x0e+1o")
    assert torch.equal(product(torch.ones(5, 2), torch.ones(5, 0)), torch.zeros(5, 6))
    assert tp.make(name, "0e", "0e", "")(torch.ones(5, 1), torch.ones(5, 1)).shape == (5, 0)


@NAMES
def test_the_work_is_counted(name):
    assert tp.make(name, *SIDES).multiply_adds() > 0


@NAMES
def test_inputs_of_the_wrong_size_are_refused(name):
    product = tp.make(name, *SIDES)
    with pytest.raises(ValueError, match=r"y must be \(..., 12\), got \(2, 11\)"):
        product(torch.ones(2, 10), torch.ones(2, 11))
    with pytest.raises(TypeError, match="y must have the dtype of x"):
        product(torch.ones(2, 10), torch.ones(2, 12, dtype=torch.float64))


def test_an_unknown_name_lists_those_known():
    refused(r"name must be one of full, full_sparse, .*got 'gauntlet'", tp.make, "gauntlet", *SIDES)
    refused("name must be one of", tp.make, "gaunt+full", *SIDES)
    refused("name must be one of", tp.make, "gaunt+gaunt+", *SIDES)


def test_bad_options_are_refused():
    refused("channel", tp.make, "gaunt", *SIDES, error=TypeError, channel=3)
    refused("irreps '1y!' cannot be read", tp.make, "full", "1y!", "0e", "0e")
    for name in ("gaunt", "elementwise"):
        refused("channels must be at least 1, got 0", tp.make, name, *SIDES, channels=0)


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("gaunt", {"t": 3}, 't is for the kind "matrix", not for'),
        ("curl", {"method": "fourier"}, 'method must be "grid" or "paths"'),
        ("matrix", {"method": "fourier"}, "method is for the kinds"),
        ("vector_signal", {"method": "grid"}, "method is for the kinds"),
        ("gaunt+curl", {"method": "bogus"}, "method must be"),
    ],
)
def test_options_that_no_product_of_signals_has_are_refused(name, option, message):
    with pytest.raises(ValueError, match=message):
        tp.make(name, *SIDES, **option)


def test_merged_inputs_need_no_layer_of_their_own():
    product = tp.make("full", "0e+0e+1o", "1o", "0e+1o+1e+2e")
    assert product.linear1 is None
    assert product.linear2 is None
    assert isinstance(product.linear_out, Linear)


def test_options_reach_the_product():
    product = tp.make("gaunt", *SIDES, channels=5, method="paths")
    assert product.channels == 5
    assert {inner.method for inner in product.products} == {"paths"}
    assert tp.make("full", *SIDES, irrep_normalization="norm").product.irreps_in1 == Irreps(
        SIDES[0]
    )


def test_full_products_by_name_agree_whatever_the_method():
    dense = tp.make("full", *SIDES).double()
    sparse = tp.make("full_sparse", *SIDES).double()
    sparse.load_state_dict(dense.state_dict())
    inputs = sample(dense, 5)
    torch.testing.assert_close(sparse(*inputs), dense(*inputs), **CLOSE)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("full", {"channels": 2}),
        ("full_sparse", {"method": "dense"}),
        ("fully_connected", {"weight_order": "output"}),
        ("channelwise", {"t": 2}),
        ("elementwise", {"path_normalization": "path"}),
        ("gaunt", {"irrep_normalization": "norm"}),
    ],
    ids=str,
)
def test_an_option_of_another_product_is_refused(name, option):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(option))}'"):
        tp.make(name, *SIDES, **option)
