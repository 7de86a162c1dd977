import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import attention_conv, kernels_info, segment_attention
from equigeo.testing import tolerance
from tests.ops.problems import SMALL

pytestmark = pytest.mark.kernels

DTYPES = [torch.float32, torch.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


def lists(edges: EdgeIndex) -> tuple[Tensor, ...]:
    return edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr


def square() -> EdgeIndex:
    return EdgeIndex.from_edges(SMALL.graph().edge_index, 5, 5)


def arguments(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = {"x": (5, 3), "logits": (9, 2), "weight": (14, 3), "self_weight": (14, 3)}
    return [SMALL.randn(name, *shape, dtype=dtype) for name, shape in shapes.items()]


@every_dtype
def test_it_is_the_attention_over_mapped_rows_and_the_map_of_a_target(dtype):
    x, logits, weight, self_weight = arguments(dtype)
    out, attention = attention_conv(x, logits, weight, self_weight, *lists(square()))
    values = (x @ weight.mT).view(5, 2, 7)
    want, weights = segment_attention(values, logits, *lists(square()))
    bound = tolerance(dtype, 100)
    assert_close(out, want.flatten(1) + x @ self_weight.mT, **bound)
    assert_close(attention, weights, **bound)


def test_a_target_without_edges_has_its_own_term_alone():
    x, _, weight, self_weight = arguments()
    alone = EdgeIndex.from_edges(torch.zeros(2, 0, dtype=torch.int64), 5, 5)
    logits = x.new_zeros(0, 2)
    out, _ = attention_conv(x, logits, weight, self_weight, *lists(alone))
    assert_close(out, x @ self_weight.mT)
    out, _ = attention_conv(x, logits, weight, None, *lists(alone))
    assert not out.any()


def test_renumbering_nodes_renumbers_results():
    x, logits, weight, self_weight = arguments()
    edges = square()
    renumbered = torch.tensor([3, 1, 4, 0, 2])
    moved = EdgeIndex.from_edges(renumbered[torch.stack([edges.source, edges.target])], 5, 5)
    back = torch.empty_like(x).index_copy(0, renumbered, x)
    out, _ = attention_conv(x, logits, weight, self_weight, *lists(edges))
    again, _ = attention_conv(back, logits[moved.order], weight, self_weight, *lists(moved))
    assert_close(again[renumbered], out, **tolerance(torch.float64, 30))


def test_only_what_goes_in_and_comes_out_is_kept_for_the_backward_pass():
    x, *others = (a.requires_grad_() for a in arguments())
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        _, attention = attention_conv(x, *others, *lists(square()))
    floats = [t.data_ptr() for t in kept if t.is_floating_point()]
    assert set(floats) == {t.data_ptr() for t in (x, attention, *others[1:])}


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("weight", torch.ones(15, 3), ValueError, "equally many rows for each of 2 heads"),
        ("weight", torch.ones(14, 4), ValueError, "3 columns"),
        ("self_weight", torch.ones(2, 3), ValueError, r"shape of weight, \(14, 3\)"),
        ("weight", torch.ones(14, 3).double(), TypeError, "dtype of x"),
        ("logits", torch.ones(9), ValueError, "logits"),
        ("x", torch.ones(5, 3).long(), TypeError, "x"),
    ],
)
def test_wrong_arguments_are_named(name, value, error, message):
    names = ("x", "logits", "weight", "self_weight")
    given = dict(zip(names, arguments(torch.float32), strict=True))
    with pytest.raises(error, match=message):
        attention_conv(*(given | {name: value}).values(), *lists(square()))


def test_a_term_of_targets_needs_as_many_of_them_as_sources():
    x, logits, weight, self_weight = arguments()
    more = EdgeIndex.from_edges(square().edge_index, 5, 6)
    with pytest.raises(ValueError, match="as many targets as sources, got 6 and 5"):
        attention_conv(x, logits, weight, self_weight, *lists(more))


@needs_kernels
def test_an_index_out_of_range_is_refused_by_the_kernel():
    x, logits, weight, self_weight = arguments()
    source, *others = lists(square())
    with pytest.raises(RuntimeError, match="out of range"):
        attention_conv(x, logits, weight, self_weight, source + 5, *others)
