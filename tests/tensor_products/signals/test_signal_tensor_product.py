"""The layer around products of signals."""

import pytest
import torch

from equigeo.reps import Irreps
from equigeo.tensor_products import SignalTensorProduct
from equigeo.testing import tolerance


def sample(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_layer_is_a_gaunt_product_between_linear_layers(channels):
    layer = SignalTensorProduct("0e+1o+2e", "2x0e+1o", "1x0e+2x1o+1x3o", "gaunt", channels)
    layer = layer.double()
    x, y = sample(5, 9), sample(5, 5)
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
        signals = list(sample(4000, sum(dims)).split(dims, dim=-1))
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


def test_products_that_make_nothing_wanted_are_left_out():
    layer = SignalTensorProduct("0e+1o", "0e+1o", "0o+1e", "gaunt")
    assert len(layer.products) == 0
    assert not layer(torch.ones(2, 4), torch.ones(2, 4)).any()
    assert not layer(torch.ones(2, 1, 4), torch.ones(3, 4)).any()


def test_signals_reach_only_as_far_as_each_parity():
    layer = SignalTensorProduct("3x0e+1o+0o", "0e+2e", "0e+1o+2o+6e", "gaunt")
    sizes = [(p.lmax1, p.lmax2, p.lmax_out) for p in layer.products]
    assert sizes == [(1, 2, 3), (0, 2, 2)]


def test_channels_default_to_the_largest_multiplicity_of_the_output():
    assert SignalTensorProduct("0e", "0e", "2x0e+3x0e+4x1o").channels == 5
    assert SignalTensorProduct("0e", "0e", "").channels == 1


@pytest.mark.parametrize("kind", ["", "full", "gaunt+", "gaunt+gaunt", "Gaunt"])
def test_an_unknown_kind_is_refused(kind):
    with pytest.raises(ValueError, match=r'kind must be some of curl, gaunt, .* joined by "\+"'):
        SignalTensorProduct("0e", "0e", "0e", kind)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match='method must be "grid", "fourier" or "paths"'):
        SignalTensorProduct("0e", "0e", "0e", "gaunt", method="guess")
