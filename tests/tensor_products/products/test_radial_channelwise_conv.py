"""A radial layer inside a convolution equals one outside, gradients included."""

import pytest
import torch

from equigeo.tensor_products import ChannelwiseConv, RadialChannelwiseConv
from tests.tensor_products.products.test_channelwise_conv import F64, NEQUIP, features, graph


@pytest.mark.parametrize("irreps", [NEQUIP, ("2x7o", "0e+1o", "7o+8e")], ids=["op", "messages"])
def test_a_radial_layer_inside_equals_one_outside(irreps):
    inside = RadialChannelwiseConv(*irreps, num_hidden=5).double()
    outside = ChannelwiseConv(*irreps).double()
    edge_index = graph()
    x, edge_attr, _ = features(inside, 9, 40)
    hidden = torch.randn(40, 5, dtype=F64, generator=torch.Generator().manual_seed(3))
    inputs = [value.requires_grad_() for value in (x, edge_attr, hidden)]
    got = inside(x, edge_index, edge_attr, hidden)
    want = outside(x, edge_index, edge_attr, hidden @ inside.radial / 5**0.5)
    torch.testing.assert_close(got, want)
    first = [
        torch.autograd.grad(out.square().sum(), [*inputs, inside.radial], create_graph=True)
        for out in (got, want)
    ]
    for a, b in zip(*first, strict=True):
        torch.testing.assert_close(a, b)
    second = [torch.autograd.grad(sum(g.sum() for g in gs), inputs) for gs in first]
    for a, b in zip(*second, strict=True):
        torch.testing.assert_close(a, b)


def test_a_radial_layer_needs_its_hidden_numbers():
    conv = RadialChannelwiseConv("4x0e", "0e", "0e", num_hidden=5)
    edge_index = torch.zeros(2, 3, dtype=torch.int64)
    x, edge_attr, hidden = torch.zeros(2, 4), torch.zeros(3, 1), torch.zeros(3, 5)
    conv(x, edge_index, edge_attr, hidden)
    for wrong in (hidden[:, :4], hidden[:2], hidden[0]):
        with pytest.raises(ValueError, match="hidden must be"):
            conv(x, edge_index, edge_attr, wrong)
    with pytest.raises(ValueError, match="num_hidden must be positive, got 0"):
        RadialChannelwiseConv("4x0e", "0e", "0e", num_hidden=0)
