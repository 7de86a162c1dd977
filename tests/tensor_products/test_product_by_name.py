"""Products by their names, and products of signals between linear layers."""

import pytest
import torch

import equigeo.tensor_products as tp
from equigeo.nn import Linear
from equigeo.reps import Irreps
from equigeo.tensor_products import SignalTensorProduct
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.tensor_products.path_helpers import inputs_of
from tests.wrong_inputs import refused

SIDES = "2x0e+1x1o+1x2e", "2x0e+1x0o+2x1o+1x1e", "2x0e+1x0o+2x1o+1x1e+1x2e"
CLOSE = tolerance(torch.float64, 64)  # of pairs of channels and components
NAMES = pytest.mark.parametrize("name", tp.product_names())


@NAMES
def test_products_are_equivariant_and_count_their_work(name):
    product = tp.make(name, *SIDES)
    assert_equivariant(product.double(), inputs=inputs_of(product, 5))
    assert_equivariant(product.float(), inputs=inputs_of(product, 5, dtype=torch.float32))
    assert product.multiply_adds() > 0


@NAMES
def test_leading_axes_broadcast_and_may_be_empty(name):
    product = tp.make(name, *SIDES).double()
    x, y = inputs_of(product, 3)
    whole = product(x[:, None], y)
    assert whole.shape == (3, 3, product.irreps_out.dim)
    torch.testing.assert_close(whole[2, 1], product(x[2], y[1]))
    assert product(x[:0], y[:0]).shape == (0, product.irreps_out.dim)


@NAMES
def test_state_and_dtype_survive_a_round_trip(name):
    product = tp.make(name, *SIDES).double()
    other = tp.make(name, *SIDES)
    other.load_state_dict(product.state_dict())
    inputs = inputs_of(product, 3)
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
    x, y = inputs_of(product, 4)
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
    z = product(*inputs_of(product, 5, dtype=torch.float32))
    assert not z[:, :-3].any()
    assert z[:, -3:].any()


@NAMES
def test_irreps_of_another_layout_raise(name):
    for side in range(3):
        irreps = [Irreps("2x0e+2x1o") for _ in range(3)]
        irreps[side] = irreps[side].with_layout("ir_mul")
        refused("has the layout 'ir_mul'", tp.make, name, *irreps)


@pytest.mark.parametrize("name", sorted(set(tp.product_names()) - {"gaunt", "curl"}))
def test_other_products_reach_even_and_odd_paths(name):
    product = tp.make(name, "0e+1o+2e", "0e+1o+2e", "0e+1o+1e+2e+2o").double()
    z = product(*inputs_of(product, 5))
    assert all(z[:, place].abs().amax() > 1e-3 for place in product.irreps_out.slices())


@NAMES
def test_nothing_makes_zeros(name):
    product = tp.make(name, "2x0e", "", "3x0e+1o")
    assert torch.equal(product(torch.ones(5, 2), torch.ones(5, 0)), torch.zeros(5, 6))
    assert tp.make(name, "0e", "0e", "")(torch.ones(5, 1), torch.ones(5, 1)).shape == (5, 0)


@NAMES
def test_inputs_of_another_size_or_dtype_raise(name):
    product, x, y = tp.make(name, *SIDES), torch.ones(2, 10), torch.ones(2, 12)
    refused(r"y must be \(..., 12\), got \(2, 11\)", product, x, y[:, 1:])
    refused("y must have the dtype of x", product, x, y.double(), error=TypeError)


@pytest.mark.parametrize(
    ("message", "name", "options"),
    [
        (r"name must be one of full, full_sparse, .*got 'gauntlet'", "gauntlet", {}),
        ("name must be one of", "gaunt+full", {}),
        ("name must be one of", "gaunt+gaunt+", {}),
        ("channels must be at least 1, got 0", "gaunt", {"channels": 0}),
        ("channels must be at least 1, got 0", "elementwise", {"channels": 0}),
        ('t is for the kind "matrix", not for', "gaunt", {"t": 3}),
        ('method must be "grid" or "paths"', "curl", {"method": "fourier"}),
        ("method is for the kinds", "matrix", {"method": "fourier"}),
        ("method is for the kinds", "vector_signal", {"method": "grid"}),
        ("method must be", "gaunt+curl", {"method": "bogus"}),
    ],
)
def test_unknown_names_and_options_raise(message, name, options):
    refused(message, tp.make, name, *SIDES, **options)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("gaunt", {"channel": 3}),
        ("full", {"channels": 2}),
        ("full_sparse", {"method": "dense"}),
        ("fully_connected", {"weight_order": "output"}),
        ("channelwise", {"t": 2}),
        ("elementwise", {"path_normalization": "path"}),
        ("gaunt", {"irrep_normalization": "norm"}),
    ],
    ids=str,
)
def test_options_of_another_product_raise(name, option):
    message = f"unexpected keyword argument '{next(iter(option))}'"
    refused(message, tp.make, name, *SIDES, error=TypeError, **option)


def test_options_reach_the_product_and_merged_inputs_need_no_layer():
    product = tp.make("gaunt", *SIDES, channels=5, method="paths")
    assert product.channels == 5
    assert {inner.method for inner in product.products} == {"paths"}
    full = tp.make("full", *SIDES, irrep_normalization="norm").product
    assert full.irreps_in1 == Irreps(SIDES[0])
    product = tp.make("full", "0e+0e+1o", "1o", "0e+1o+1e+2e")
    assert product.linear1 is None
    assert product.linear2 is None
    assert isinstance(product.linear_out, Linear)


def test_full_products_by_name_agree_whatever_the_method():
    dense = tp.make("full", *SIDES).double()
    sparse = tp.make("full_sparse", *SIDES).double()
    sparse.load_state_dict(dense.state_dict())
    inputs = inputs_of(dense, 5)
    torch.testing.assert_close(sparse(*inputs), dense(*inputs), **CLOSE)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_layer_is_a_gaunt_product_between_linear_layers(channels):
    layer = SignalTensorProduct("0e+1o+2e", "2x0e+1o", "1x0e+2x1o+1x3o", "gaunt", channels)
    layer = layer.double()
    x, y = random(5, 9), random(5, 5)
    (product,) = layer.products
    assert str(product.irreps_out) == "1x0e+1x1o+1x2e+1x3o"

    def by_channel(linear, features, lmax):
        mixed = linear(features).split([channels * (2 * l + 1) for l in range(lmax + 1)], -1)
        return torch.cat([part.unflatten(-1, (channels, -1)) for part in mixed], dim=-1)

    z = product(by_channel(layer.linear1, x, 2), by_channel(layer.linear2, y, 1))
    # E[z_l3^2] = sum over l1 and l2 of kappa^2 / (2 l3 + 1) for unit normal signals
    variance = [
        sum(product.coefficient(l1, l2, l3) ** 2 for l1 in range(3) for l2 in range(2))
        for l3 in range(4)
    ]
    kept = [l for l in range(4) if l != 2]  # nobody wants 2e
    parts = [
        (z[..., l * l : (l + 1) ** 2] * ((2 * l + 1) / variance[l]) ** 0.5).flatten(-2)
        for l in kept
    ]
    expected = layer.linear_out(torch.cat(parts, dim=-1))
    torch.testing.assert_close(layer(x, y), expected, **tolerance(torch.float64, 36))  # 9 x 4


@pytest.mark.parametrize("kind", ["gaunt", "curl", "matrix", "vector_signal"])
@pytest.mark.parametrize("sides", [("0e+1o+2e", "0e+1o"), ("1o", "1o+1e+2e")])
def test_products_of_unit_normal_signals_have_unit_variance(kind, sides):
    layer = SignalTensorProduct(*sides, "0e+0o+1o+1e+2e+2o", kind, channels=1).double()
    for k, product in enumerate(layer.products):
        dims = [product.irreps_in1.dim, product.irreps_in2.dim]
        signals = list(random(4000, sum(dims)).split(dims, dim=-1))
        for signal, irreps, side in zip(signals, product.rep_in, sides, strict=True):
            for (_, ir), place in zip(irreps.terms, irreps.slices(), strict=True):
                signal[:, place] *= ir in {held for _, held in Irreps(side)}
        z = product(*signals)[:, layer.positions[f"part{k}"]]
        z = z * layer.tables[f"scale{k}", torch.float64]
        for column in z.unbind(-1):
            assert 0.7 < column.square().mean() < 1.3
    assert len(layer.products)


def test_each_pair_of_parities_is_multiplied():
    layer = SignalTensorProduct("0e+1o", "0e+0o+1o+1e", "0e+0o+1o+1e", "gaunt+curl")
    kinds = [(type(p).__name__, str(p.irreps_in2), str(p.irreps_out)) for p in layer.products]
    assert kinds == [
        ("GauntTensorProduct", "1x0e+1x1o", "1x0e+1x1o"),
        ("GauntTensorProduct", "1x0o+1x1e", "1x0o+1x1e"),
        ("CurlTensorProduct", "1x0e+1x1o", "1x0o+1x1e"),
        ("CurlTensorProduct", "1x0o+1x1e", "1x0e+1x1o"),
    ]
    # Signals are made once for both products; curls give no scalars.
    assert str(layer.linear2.irreps_out) == "1x0e+1x1o+1x0o+1x1e"
    assert str(layer.linear_out.irreps_in) == "1x0e+1x1o+1x0o+1x1e+1x1e+1x1o"


def test_signals_reach_only_as_far_as_the_output_needs():
    layer = SignalTensorProduct("3x0e+1o+0o", "0e+2e", "0e+1o+2o+6e", "gaunt")
    sizes = [(p.lmax1, p.lmax2, p.lmax_out) for p in layer.products]
    assert sizes == [(1, 2, 3), (0, 2, 2)]
    layer = SignalTensorProduct("0e+1o", "0e+1o", "0o+1e", "gaunt")
    assert len(layer.products) == 0
    assert not layer(torch.ones(2, 4), torch.ones(2, 4)).any()
    assert not layer(torch.ones(2, 1, 4), torch.ones(3, 4)).any()
    assert SignalTensorProduct("0e", "0e", "2x0e+3x0e+4x1o").channels == 5
    assert SignalTensorProduct("0e", "0e", "").channels == 1


def test_unknown_kinds_methods_and_irreps_raise():
    refused("irreps '1y!' cannot be read", tp.make, "full", "1y!", "0e", "0e")
    message = r'kind must be some of curl, gaunt, .* joined by "\+"'
    for kind in ("", "full", "gaunt+", "gaunt+gaunt", "Gaunt"):
        refused(message, SignalTensorProduct, "0e", "0e", "0e", kind)
    message = 'method must be "grid", "fourier" or "paths"'
    refused(message, SignalTensorProduct, "0e", "0e", "0e", "gaunt", method="guess")
