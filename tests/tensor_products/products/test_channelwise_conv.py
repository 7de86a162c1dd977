"""The fused convolution equals gather, e3nn's product and scatter, path by path."""

import pytest
import torch
from e3nn import o3

from equigeo.graphs import EdgeIndex
from equigeo.tensor_products import ChannelwiseConv
from equigeo.testing import tolerance

F64 = torch.float64
CLOSE = tolerance(F64, 1000)  # ten edges of a node, ten paths and products of nine components
LAYOUTS = ["mul_ir", "ir_mul"]
# As many paths as the model in which a library once had one wrong gradient out of 23.
NEQUIP = ("8x0o+8x0e+8x1o+8x1e+8x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e")


@pytest.fixture
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(F64)
    yield
    torch.set_default_dtype(before)


def graph(nodes=9, edges=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(nodes - 2, (2, edges), generator=generator)  # two nodes stay alone


def features(conv, nodes, edges, dtype=F64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(nodes, conv.irreps_in1.dim), (edges, conv.irreps_in2.dim)]
    shapes.append((edges, conv.weight_numel))
    return [torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes]


def by_messages(conv, x, edge_index, edge_attr, weights):
    """Gather, the product of e3nn and scatter, in mul_ir."""
    instructions = [tuple(i)[:5] for i in conv.instructions]
    irreps = [o3.Irreps(i) for i in (conv.irreps_in1, conv.irreps_in2, conv.irreps_out)]
    product = o3.TensorProduct(*irreps, instructions, shared_weights=False, internal_weights=False)
    messages = product(x[edge_index[0]], edge_attr, weights)
    return x.new_zeros(len(x), messages.shape[1]).index_add(0, edge_index[1], messages)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "irreps",
    [NEQUIP, ("3x0e+5x1o+2x3e", "2x0e+1o+2e", "0e+1o+2e+1e"), ("16x0e+32x1o", "0e+1o", "0e+1o")],
    ids=str,
)
def test_equals_gather_product_and_scatter_with_all_gradients(irreps):
    conv = ChannelwiseConv(*irreps)
    edge_index = graph()
    inputs = [x.requires_grad_() for x in features(conv, 9, 40)]
    x, edge_attr, weights = inputs
    got = conv(x, edge_index, edge_attr, weights)
    want = by_messages(conv, x, edge_index, edge_attr, weights)
    torch.testing.assert_close(got, want, **CLOSE)
    direction = torch.linspace(-1, 1, got.numel()).view_as(got)
    first = [
        torch.autograd.grad((out * direction).sum(), inputs, create_graph=True)
        for out in (got, want)
    ]
    for a, b in zip(*first, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    second = [torch.autograd.grad(sum(g.square().sum() for g in gs), inputs) for gs in first]
    for a, b in zip(*second, strict=True):
        scale = b.abs().max()
        torch.testing.assert_close(a / scale, b / scale, **CLOSE)


@pytest.mark.parametrize(
    "irreps", ["5x0e+4x1o", "16x0e+32x1o"], ids=["rows are padded", "rows are read in place"]
)
def test_layouts_differ_by_a_permutation_alone(irreps):
    mul_ir, ir_mul = (
        ChannelwiseConv(irreps, "0e+2x1o", "0e+1o+1e", layout=layout) for layout in LAYOUTS
    )
    edge_index = graph()
    inputs = [value.requires_grad_() for value in features(mul_ir, 9, 40, F64)]
    x, edge_attr, weights = inputs
    want = mul_ir.irreps_out.to_layout(mul_ir(x, edge_index, edge_attr, weights), "ir_mul")
    moved = mul_ir.irreps_in1.to_layout(x, "ir_mul")
    got = ir_mul(moved, edge_index, mul_ir.irreps_in2.to_layout(edge_attr, "ir_mul"), weights)
    torch.testing.assert_close(got, want, **CLOSE)
    direction = torch.linspace(-1, 1, want.numel(), dtype=F64).view_as(want)
    grads = [torch.autograd.grad(out, inputs, direction) for out in (got, want)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def test_edges_may_come_in_any_order_or_sorted_once():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = graph()
    x, edge_attr, weights = features(conv, 9, 40)
    want = conv(x, edge_index, edge_attr, weights)
    assert torch.equal(conv(x, EdgeIndex.from_edges(edge_index, 9, 9), edge_attr, weights), want)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    got = conv(x, edge_index[:, order], edge_attr[order], weights[order])
    torch.testing.assert_close(got, want)
    assert not want[7:].any()  # nobody sends to the last two


def test_targets_may_differ_from_sources_and_edges_be_missing():
    conv = ChannelwiseConv("4x0e", "0e", "0e")
    x, edge_attr, weights = features(conv, 3, 2)
    edge_index = torch.tensor([[0, 2], [4, 0]])
    out = conv(x, edge_index, edge_attr, weights, num_nodes=5)
    assert out.shape == (5, 4)
    assert out[[0, 4]].all()
    empty = conv(x, edge_index[:, :0], edge_attr[:0], weights[:0], num_nodes=5)
    assert torch.equal(empty, torch.zeros(5, 4, dtype=F64))


@pytest.mark.usefixtures("float64")
def test_degrees_and_dtypes_that_the_op_does_not_take_go_by_messages():
    high = ChannelwiseConv("2x7o", "0e+1o", "7o+8e")
    assert high.product.compiled is None
    edge_index = graph()
    x, edge_attr, weights = features(high, 9, 40)
    torch.testing.assert_close(
        high(x, edge_index, edge_attr, weights),
        by_messages(high, x, edge_index, edge_attr, weights),
        **tolerance(torch.float32, terms=40),
    )
    low = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    x, edge_attr, weights = features(low, 9, 40)
    want = low(x, edge_index, edge_attr, weights)
    got = low.bfloat16()(x.bfloat16(), edge_index, edge_attr.bfloat16(), weights.bfloat16())
    torch.testing.assert_close(got.double(), want, **tolerance(torch.bfloat16, terms=40))


def test_shared_weights_belong_to_the_module_and_are_trained():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o", shared_weights=True)
    edge_index = graph()
    x, edge_attr, _ = features(conv, 9, 40, torch.float32)
    conv(x, edge_index, edge_attr).square().sum().backward()
    assert conv.weight.grad.abs().min() > 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edge_index": torch.zeros(2, 4)}, TypeError, "edge_index must be int64"),
        (
            {"edge_index": torch.zeros(4, 2, dtype=torch.int64)},
            ValueError,
            r"edge_index must be \(2, edges\)",
        ),
        (
            {"edge_index": torch.full((2, 4), 9)},
            ValueError,
            r"sources of edge_index must lie in \[0, 5\)",
        ),
        ({"edge_index": torch.full((2, 4), -1)}, ValueError, r"must lie in \[0, 5\)"),
        ({"num_nodes": 1}, ValueError, r"targets of edge_index must lie in \[0, 1\)"),
        ({"num_nodes": -1}, ValueError, "num_targets must not be negative"),
        ({"x": torch.zeros(5, 16, dtype=F64)}, TypeError, "must have the dtype of x"),
        ({"x": torch.zeros(16)}, ValueError, r"x must be \(sources, components\)"),
        ({"edge_attr": torch.zeros(3, 4)}, ValueError, "edge_attr must have 4 rows, got 3"),
        ({"x": torch.zeros(5, 31)}, ValueError, r"x must be \(\.\.\., 16\), got \(5, 31\)"),
        ({"x": None}, TypeError, "x must be a Tensor, got None"),
        ({"edge_attr": torch.zeros(4, 3)}, ValueError, r"edge_attr must be \(\.\.\., 4\)"),
        ({"weights": torch.zeros(4, 15)}, ValueError, r"weights must be \(\.\.\., 16\)"),
        ({"weights": torch.zeros(3, 16)}, ValueError, r"weights must be \(4, 16\), got \(3, 16\)"),
        ({"weights": None}, ValueError, "is missing"),
    ],
    ids=str,
)
def test_bad_input_is_refused_with_one_clear_error(change, error, message):
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x, edge_attr, weights = features(conv, 5, 4, torch.float32)
    good = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "weights": weights}
    conv(**good)
    with pytest.raises(error, match=message):
        conv(**(good | change))


def test_an_edge_index_of_another_graph_is_refused():
    conv = ChannelwiseConv("4x0e", "0e", "0e")
    edges = EdgeIndex.from_edges(torch.zeros(2, 1, dtype=torch.int64), 2, 2)
    with pytest.raises(ValueError, match="edge_index joins 2 sources"):
        conv(torch.zeros(3, 4), edges, torch.zeros(1, 1), torch.zeros(1, conv.weight_numel))


def test_a_bipartite_graph_has_sources_and_targets():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2]])
    x, edge_attr, weights = features(conv, 5, 4, torch.float32)
    want = conv(x, edge_index, edge_attr, weights, num_nodes=3)
    target = torch.zeros(3, 7)  # counted, and not read
    for given in ((x, target), [x, target], (x, None)):
        number = 3 if given[1] is None else None
        found = conv(given, edge_index, edge_attr, weights, num_nodes=number)
        torch.testing.assert_close(found, want, rtol=0, atol=0)
    edges = EdgeIndex.from_edges(edge_index, 5, 3)
    found = conv((x, target), edges, edge_attr, weights)
    torch.testing.assert_close(found, want, rtol=0, atol=0)
    found = conv(x, edge_index.numpy(), edge_attr, weights, num_nodes=3)
    torch.testing.assert_close(found, want, rtol=0, atol=0)
    for bad, message in (
        ((x,), "got 1 parts"),
        ((None, x), "must be .sources, targets."),
        ((), "0"),
    ):
        with pytest.raises(ValueError, match=message):
            conv(bad, edge_index, edge_attr, weights)
    with pytest.raises(ValueError, match="num_nodes must be the 3 rows of targets, got 4"):
        conv((x, target), edge_index, edge_attr, weights, num_nodes=4)
    with pytest.raises(ValueError, match="5 sources and 3 targets, but x has 5 rows"):
        conv((x, target[:2]), edges, edge_attr, weights)


@pytest.mark.parametrize("irreps", [NEQUIP, ("2x7o", "0e+1o", "7o+8e")], ids=["op", "messages"])
def test_a_radial_layer_inside_equals_one_outside(irreps):
    inside = ChannelwiseConv(*irreps, num_hidden=5).double()
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
    conv = ChannelwiseConv("4x0e", "0e", "0e", num_hidden=5)
    edge_index = torch.zeros(2, 3, dtype=torch.int64)
    x, edge_attr, hidden = torch.zeros(2, 4), torch.zeros(3, 1), torch.zeros(3, 5)
    conv(x, edge_index, edge_attr, hidden)
    for wrong in (hidden[:, :4], hidden[:2], hidden[0]):
        with pytest.raises(ValueError, match=r"weights must be \(3, 5\)"):
            conv(x, edge_index, edge_attr, wrong)
    with pytest.raises(ValueError, match="num_hidden must be at least 1, got 0"):
        ChannelwiseConv("4x0e", "0e", "0e", num_hidden=0)
    with pytest.raises(ValueError, match="shared_weights must be False where num_hidden is given"):
        ChannelwiseConv("4x0e", "0e", "0e", num_hidden=5, shared_weights=True)
