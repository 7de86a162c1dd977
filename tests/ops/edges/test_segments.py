"""Offsets of elements beyond 2^31 are computed in 64 bits."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import PathTable, attention_conv, channelwise_conv, gather_sum, segment_attention
from equigeo.ops.edges.gather_sum import gather_sum_reference, segment_of_rows
from equigeo.ops.geometry.principal_axes import principal_axes_reference
from equigeo.testing import tolerance
from tests.ops.path_tables import channelwise_path
from tests.ops.problems import PROBLEMS, SMALL
from tests.ops.product_rows import graph_tensors
from tests.ops.test_ops import every_dtype

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_gather_sum_is_the_product_with_a_sparse_matrix(problem):
    edges = problem.graph()
    x = problem.randn("x", problem.sources, problem.channels, dtype=torch.float64).round()
    matrix = torch.zeros(problem.targets, problem.sources, dtype=torch.float64)
    one = torch.ones(problem.edges, dtype=torch.float64)
    matrix.index_put_((edges.target, edges.source), one, accumulate=True)
    y = gather_sum(x, edges.source, edges.ptr, edges.back_target, edges.back_ptr)
    assert_close(y, matrix @ x, rtol=0, atol=0)  # integers: exact in any order


def test_agrees_with_repeated_numbers_of_segments():
    counts = torch.tensor([0, 3, 0, 0, 1, 5, 0])
    want = torch.repeat_interleave(counts)
    assert torch.equal(segment_of_rows(counts.cumsum(0), len(want)), want)
    assert segment_of_rows(torch.zeros(0, dtype=torch.int64), 0).shape == (0,)


@pytest.mark.parametrize("ptr", [[0, 2**40], [0, -5, 9], [0, 1], [5, 2, 2**62]], ids=str)
def test_references_stay_inside_their_arrays_whatever_the_offsets_are(ptr):
    ptr = torch.tensor(ptr)
    x, index = torch.ones(3, 4), torch.zeros(3, dtype=torch.int64)
    weight = torch.ones(3)
    for call in (
        lambda: gather_sum_reference(x, index, ptr, index, ptr),
        lambda: principal_axes_reference(x, ptr, weight, True, 1, 0, 1e-6, 1e-6),
    ):
        try:
            results = call()
        except (RuntimeError, IndexError) as error:
            assert "out of" in str(error)  # noqa: PT017
        else:
            first = results if isinstance(results, torch.Tensor) else results[0]
            assert len(first) in (3, len(ptr) - 1)


def attention_arguments(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    edges = SMALL.graph()
    return {
        "values": SMALL.randn("values", 4, 2, 3, dtype=dtype),
        "logits": SMALL.randn("logits", 9, 2, dtype=dtype),
        "source": edges.source,
        "ptr": edges.ptr,
        "target": edges.target,
        "back_order": edges.back_order,
        "back_ptr": edges.back_ptr,
    }


def one_row(logits: Tensor) -> Tensor:
    """Attention of one target over sources of its own."""
    each = torch.arange(len(logits) + 1)
    values = logits.new_ones(len(logits), 1, 1)
    ptr, target = torch.tensor([0, len(logits)]), torch.zeros_like(each[1:])
    _, weights = segment_attention(values, logits[:, None], each[:-1], ptr, target, each[:-1], each)
    return weights[:, 0]


@every_dtype
def test_one_row_is_a_softmax(dtype):
    logits = SMALL.randn("logits", 50, dtype=dtype)
    assert_close(one_row(logits), logits.softmax(0), **tolerance(dtype, 50))


@every_dtype
def test_weights_sum_to_one_where_an_edge_arrives_and_rows_without_one_are_zero(dtype):
    case = attention_arguments(dtype)
    out, weights = segment_attention(**case)
    total = torch.zeros(5, 2, dtype=dtype).index_add(0, case["target"], weights)
    arrives = case["ptr"].diff() > 0
    assert not arrives.all()
    assert_close(total, arrives[:, None].to(dtype).expand(5, 2), **tolerance(dtype, 9))
    assert (out[~arrives] == 0).all()


@every_dtype
def test_adding_a_constant_to_a_row_changes_nothing_however_large(dtype):
    logits = torch.tensor([0.0, 1.0, -2.0], dtype=dtype)
    assert_close(one_row(logits + 2.0**20), one_row(logits), rtol=0, atol=0)
    assert_close(one_row(logits - 2.0**20), one_row(logits), rtol=0, atol=0)


@every_dtype
def test_small_weights_are_accurate_relative_to_themselves(dtype):
    lowest = -math.log(torch.finfo(dtype).max) + 2
    for gap in torch.linspace(0, lowest, 997, dtype=dtype):
        small = one_row(torch.stack([torch.zeros((), dtype=dtype), gap]))[1]
        want = gap.double().exp() / (1 + gap.double().exp())
        assert_close(small.double() / want, torch.ones_like(want), **tolerance(dtype))


def test_minus_infinity_masks_an_edge_as_in_torch_softmax():
    logits = torch.tensor([0.0, -math.inf, 1.0])
    assert_close(one_row(logits), logits.softmax(0), **tolerance(torch.float32, 3))
    assert one_row(torch.tensor([-math.inf, -math.inf])).isnan().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_logit_that_is_not_a_number_spoils_its_row_and_no_other(bad):
    case = attention_arguments()
    clean, _ = segment_attention(**case)
    case["logits"] = case["logits"].clone()
    case["logits"][0, 0] = bad
    out, _ = segment_attention(**case)
    row = int(case["target"][0])
    assert out[row, 0].isnan().all()
    clean[row, 0] = out[row, 0] = 0
    assert_close(out, clean, rtol=0, atol=0)


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


def test_offsets_beyond_32_bits_are_computed_in_64():
    channels, rows = 2**20, 2**11 + 2  # the last two rows begin at 2^31 and beyond
    try:  # the system holds only the last two rows, which are written to
        x = torch.from_numpy(np.zeros((rows, channels), np.float32))
    except MemoryError:
        pytest.skip("the system grants no address space of 9 GB")
    x[-2], x[-1] = torch.arange(channels), 2.0
    edges = EdgeIndex.from_edges(torch.tensor([[rows - 2, rows - 1], [0, 0]]), rows, 1)
    want = torch.arange(channels, dtype=torch.float32)[None]
    back = edges.back_target, edges.back_ptr
    assert torch.equal(edges.sum(x), want + 2)
    assert torch.equal(gather_sum(x, edges.source, edges.ptr, *back), want + 2)
    path = channelwise_path(0, 0, 0, None, channels, 1, torch.ones(1, 1, 1))
    table = PathTable.from_paths([path], (channels, 1, 0, channels), by_output=True)
    y = torch.tensor([[3.0], [5.0]])
    out = channelwise_conv(x, y, None, tuple(graph_tensors(edges)), table)
    assert torch.equal(out, 3 * want + 10)
    out, _ = edges.attend(x[:, None], torch.zeros(2, 1))
    assert torch.equal(out[:, 0], (want + 2) / 2)
