"""What holds a product owns its weights and has the state that the product would have."""

import copy

import pytest
import torch
from e3nn import o3

from equigeo.graphs import EdgeIndex
from equigeo.tensor_products import (
    ChannelwiseConv,
    ChannelwiseTensorProduct,
    PathProduct,
    Product,
    TensorProduct,
    TensorSquare,
)
from equigeo.tensor_products.products.path_product import HeldProduct
from equigeo.tensor_products.signals.signal_product import SignalProduct
from equigeo.testing import tolerance

IRREPS = ("4x0e+4x1o", "0e+1o", "0e+1o")
HOLDERS = {
    "conv": lambda: ChannelwiseConv(*IRREPS),
    "conv with weights": lambda: ChannelwiseConv(*IRREPS, shared_weights=True),
    "radial": lambda: ChannelwiseConv(*IRREPS, num_hidden=3),
    "square": lambda: TensorSquare("4x0e+4x1o"),
    "square with weights": lambda: TensorSquare("4x0e+4x1o", "2x0e+2x1o"),
}
every_holder = pytest.mark.parametrize("name", [*HOLDERS])


@every_holder
def test_it_is_no_product_and_saves_nothing_of_the_one_inside(name):
    module = HOLDERS[name]()
    assert isinstance(module.product, PathProduct)
    assert not isinstance(module, Product)
    saved = {"output_mask", "weight"} | ({"radial"} if name == "radial" else set())
    assert {*module.state_dict()} == saved
    assert {*dict(module.named_parameters())} <= {"weight", "radial"}
    assert module.weight_numel == module.product.weight_numel
    assert module.instructions == module.product.instructions
    assert module.multiply_adds() == module.product.multiply_adds() > 0


def test_it_draws_the_weights_of_a_product_and_loads_them():
    torch.manual_seed(0)
    product = ChannelwiseTensorProduct(*IRREPS, shared_weights=True)
    torch.manual_seed(0)
    conv = ChannelwiseConv(*IRREPS, shared_weights=True)
    assert torch.equal(conv.weight, product.weight)
    other = ChannelwiseConv(*IRREPS, shared_weights=True)
    other.load_state_dict(product.state_dict(), strict=True)
    assert torch.equal(other.weight, product.weight)
    for view, theirs in zip(conv.weight_views(), product.weight_views(), strict=True):
        assert torch.equal(view, theirs)


def test_it_loads_the_state_of_e3nn_or_says_which_coupling_differs():
    square = TensorSquare("4x2e+4x1o", "2x0e+2x1o")
    reference = o3.TensorSquare("4x2e+4x1o", "2x0e+2x1o")
    state = reference.state_dict()
    square.load_state_dict(state, strict=True)
    assert torch.equal(square.weight, reference.weight)
    tables = [key for key in state if "_w3j_" in key]
    assert tables
    turned = {key: -value if key in tables else value for key, value in state.items()}
    with pytest.raises(RuntimeError, match="has the other sign"):
        square.load_state_dict(turned)


@every_holder
def test_copies_and_casts_take_the_product_along(name):
    module = copy.deepcopy(HOLDERS[name]()).double()
    floating = [value for value in module.buffers() if value.is_floating_point()]
    assert all(value.dtype == torch.float64 for value in floating)


def test_shared_weights_serve_degrees_that_the_op_does_not_take():
    irreps = ("2x7o", "0e+1o", "7o+8e")
    conv, product = ChannelwiseConv(*irreps, shared_weights=True), ChannelwiseTensorProduct(*irreps)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, conv.irreps_in1.dim, generator=generator)
    edge_attr = torch.randn(4, 4, generator=generator)
    source, target = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 2])
    edges = EdgeIndex.from_edges(torch.stack([source, target]), 3, 3)
    messages = product(x[source], edge_attr, conv.weight.expand(4, -1))
    want = torch.zeros(3, conv.irreps_out.dim).index_add(0, target, messages)
    got = conv(x, edges, edge_attr)
    torch.testing.assert_close(got, want, **tolerance(torch.float32, terms=10))


@pytest.mark.parametrize("base", [Product, PathProduct, SignalProduct, HeldProduct])
def test_bases_are_abstract(base):
    with pytest.raises(TypeError, match="abstract class"):
        base()


def test_final_products_are_products_by_paths():
    assert issubclass(TensorProduct, PathProduct)
    assert not issubclass(ChannelwiseTensorProduct, TensorProduct)
