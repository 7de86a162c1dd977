from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.graphs.edge_index import stable_order
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

FLOAT64 = tolerance(torch.float64, 40)
NONE = torch.zeros(2, 0, dtype=torch.int64)


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    sources, targets = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pair = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    pairs = draw(st.lists(pair, max_size=20))
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T, sources, targets


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def assert_same(a: EdgeIndex, b: EdgeIndex) -> None:
    for field in fields(EdgeIndex):
        mine, theirs = getattr(a, field.name), getattr(b, field.name)
        if isinstance(mine, Tensor):
            assert_close(mine, theirs, rtol=0, atol=0, msg=field.name)
        else:
            assert mine == theirs, field.name


@given(edge_lists())
def test_orders_sums_and_attention_are_those_of_plain_loops(case):
    edge_index, sources, targets = case
    edges = EdgeIndex.from_edges(edge_index, sources, targets)
    given_order = range(edge_index.shape[1])
    order = sorted(given_order, key=lambda e: int(edge_index[1, e]))
    source, target = edge_index[0, order].tolist(), edge_index[1, order].tolist()
    back = sorted(given_order, key=lambda k: source[k])
    assert edges.order.tolist() == order
    assert edges.is_sorted == (order == list(given_order))
    assert edges.source.tolist() == source
    assert edges.target.tolist() == target
    assert edges.back_order.tolist() == back
    assert edges.back_target.tolist() == [target[k] for k in back]
    assert edges.ptr.tolist() == [sum(t < i for t in target) for i in range(targets + 1)]
    assert edges.back_ptr.tolist() == [sum(s < i for s in source) for i in range(sources + 1)]
    edge_index, sources, targets = case
    edges = EdgeIndex.from_edges(edge_index, sources, targets)
    adjacency = torch.zeros(targets, sources, dtype=torch.float64)
    ones = torch.ones(edges.num_edges, dtype=torch.float64)
    adjacency.index_put_((edge_index[1], edge_index[0]), ones, accumulate=True)
    x = randn(sources, 3)
    assert_close(edges.sum(x), adjacency @ x, **FLOAT64)
    edge_index, sources, targets = case
    edges = EdgeIndex.from_edges(edge_index, sources, targets)
    values, logits = randn(sources, 2, 3), randn(edges.num_edges, 2, seed=1)
    out, attention = edges.attend(values, logits)
    for t in range(targets):
        row = edge_index[1] == t
        want = logits[row].softmax(0)
        assert_close(attention[row], want, **FLOAT64)
        average = (want[:, :, None] * values[edge_index[0, row]]).sum(0)
        assert_close(out[t], average, **FLOAT64)


@pytest.mark.parametrize(
    ("edges", "nodes"), [(50, 7), (20_000, 3000), (20_000, 80_000), (20_000, 10**6)]
)
def test_large_lists_are_counted_in_the_order_of_a_stable_sort(edges, nodes):
    numbers = torch.arange(edges * 7) * 7919 % 104_729 % nodes
    for some in (numbers[:edges], numbers[::7], numbers[:edges].sort().values):
        assert torch.equal(stable_order(some, nodes), torch.argsort(some, stable=True))


@pytest.mark.parametrize("wrong", [-1, 100, 101, 2**40])
def test_indices_out_of_range_are_refused_in_large_lists(wrong):
    edges = torch.arange(20_000).expand(2, -1) % 100
    for row in (0, 1):
        damaged = edges.clone()
        damaged[row, 7777] = wrong
        refused(r"\[0, 100\)", EdgeIndex.from_valid_edges, damaged, 100, 100, error=IndexError)


@given(st.lists(edge_lists(), min_size=1, max_size=3))
def test_union_is_what_sorting_the_shifted_edges_gives(cases):
    parts = [EdgeIndex.from_edges(*case) for case in cases]
    shifted, sources, targets = [], 0, 0
    for edge_index, more_sources, more_targets in cases:
        shifted.append(edge_index + torch.tensor([[sources], [targets]]))
        sources, targets = sources + more_sources, targets + more_targets
    want = EdgeIndex.from_edges(torch.cat(shifted, dim=1), sources, targets)
    assert_same(EdgeIndex.disjoint_union(parts), want)


def test_gradients_pass_through_unsorted_edges():
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2, 1], [2, 0, 2, 1]]))
    assert not edges.is_sorted
    inputs = randn(3, 2, 2).requires_grad_(), randn(4, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(edges.attend, inputs)
    assert torch.autograd.gradgradcheck(edges.attend, inputs)


def test_no_edges_and_no_nodes_are_fine_and_every_index_is_moved():
    assert EdgeIndex.from_edges(NONE).ptr.tolist() == [0]
    edges = EdgeIndex.from_edges(NONE, 2, 3)
    assert (edges.sum(randn(2, 4)) == torch.zeros(3, 4)).all()
    refused("at least one graph", EdgeIndex.disjoint_union, [])
    edges = EdgeIndex.from_edges(torch.tensor([[0], [1]])).to("meta")
    tensors = [getattr(edges, field.name) for field in fields(edges)]
    assert all(t.device.type == "meta" for t in tensors if isinstance(t, Tensor))
    assert edges.num_edges == 1
    edges = EdgeIndex.from_edges(torch.zeros(2, 1000, dtype=torch.int64), 3, 4)
    assert repr(edges) == "EdgeIndex(edges=1000, sources=3, targets=4)"


def test_an_edge_list_that_is_none_says_what_is_wrong():
    for edge_index, sizes, error, message in (
        (torch.zeros(2, 3), (), TypeError, r"edge_index must be int64, got torch\.float32"),
        (torch.zeros(3, 2).long(), (), ValueError, r"edge_index must be \(2, edges\), got \(3, 2"),
        (torch.zeros(2).long(), (), ValueError, r"edge_index must be \(2, edges\), got \(2,\)"),
        (torch.tensor([[-1], [0]]), (), ValueError, r"sources of edge_index must lie in \[0, 1\)"),
        (torch.tensor([[0], [5]]), (3, 5), ValueError, r"targets .* in \[0, 5\), got values .* 5"),
        (NONE, (-1, 2), ValueError, "num_sources must not be negative, got -1"),
        (NONE, (np.float64(3), 2), TypeError, "num_sources must be an integer, got float64"),
        (NONE, (2.5, 2), TypeError, "num_sources must be an integer, got float"),
        (torch.full((2, 1), 2**40), (), ValueError, r"num_sources must be below 2\^32, got 109"),
        (torch.full((2, 1), -7), (), ValueError, r"sources of edge_index must lie in \[0, 0\)"),
        ([[0], [1]], (), TypeError, "edge_index must be a Tensor or a NumPy array, got list"),
        (None, (), TypeError, "edge_index must be a Tensor or a NumPy array, got None"),
        (np.zeros((2, 3)), (), TypeError, r"edge_index must be int64, got torch\.float64"),
        (NONE.to("meta"), (), ValueError, "edge_index must have values to count nodes, got me"),
    ):
        refused(message, EdgeIndex.from_edges, edge_index, *sizes, error=error)


@given(edge_lists())
def test_arrays_of_any_integers_and_rows_of_sparse_matrices_are_edge_lists(case):
    edge_index, sources, targets = case
    for dtype in (np.int64, np.int32, np.uint32):
        edges = EdgeIndex.from_edges(edge_index.numpy().astype(dtype), sources, targets)
        assert_same(edges, EdgeIndex.from_edges(edge_index, sources, targets))
    edge_index, sources, targets = case
    want = EdgeIndex.from_edges(edge_index, sources, targets)
    found = EdgeIndex.from_csr(want.ptr, want.source, sources)
    in_order = torch.stack([want.source, want.target])
    assert_same(found, EdgeIndex.from_edges(in_order, sources, targets))
    assert found.is_sorted
    ones = np.ones(want.num_edges)
    matrix = sparse.csr_matrix((ones, want.source.numpy(), want.ptr.numpy()), (targets, sources))
    assert matrix.indptr.dtype == np.int32
    assert_same(EdgeIndex.from_csr(matrix.indptr, matrix.indices, sources), found)


def test_what_are_no_rows_is_refused():
    for ptr, sources, size, error, message in (
        ([0, 1], [0, 0], None, ValueError, "ptr must start at 0, never fall and end at 2"),
        ([0, 2, 1], [0], None, ValueError, "ptr must start at 0, never fall and end at 1"),
        ([], [], None, ValueError, r"ptr must be \(targets \+ 1,\), got \(0,\)"),
        ([[0, 1]], [0], None, ValueError, r"ptr must be \(targets \+ 1,\), got \(1, 2\)"),
        ([0, 1], [[0]], None, ValueError, r"sources must be \(edges,\), got \(1, 1\)"),
        ([0, 1], [1], None, ValueError, r"sources must lie in \[0, 1\), got values from 1 to 1"),
        ([0, 1], [-1], 5, ValueError, r"sources must lie in \[0, 5\)"),
        ([0, 1], [0], -5, ValueError, "num_sources must not be negative, got -5"),
    ):
        given = (torch.tensor(values, dtype=torch.int64) for values in (ptr, sources))
        refused(message, EdgeIndex.from_csr, *given, size, error=error)


def test_rows_of_both_ends_are_added_mapped_rows_attended_to_and_wrong_features_raise():
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2, 0], [1, 0, 1, 2]]), 3, 3)  # not sorted
    x = torch.tensor([[1.0], [20.0], [300.0]], requires_grad=True)
    total = edges.add_ends(x, 2 * x)
    assert total.flatten().tolist() == [41.0, 22.0, 340.0, 601.0]
    (gradient,) = torch.autograd.grad(total, x, torch.tensor([[1.0], [10.0], [100.0], [1000.0]]))
    assert gradient.flatten().tolist() == [1001.0 + 20, 10.0 + 202, 100.0 + 2000]
    x, logits = torch.randn(3, 4), torch.randn(4, 2)
    weight, own = torch.randn(2, 10, 4).unbind()
    out, attention = edges.attend_linear(x, logits, weight, own)
    want, weights = edges.attend((x @ weight.mT).view(3, 2, 5), logits)
    bound = tolerance(torch.float32, 20)
    assert_close(out, want.flatten(1) + x @ own.mT, **bound)
    assert_close(attention, weights, **bound)
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 0]]), 3, 2)
    refused(r"x must be \(3, channels\), got \(2, 4\)", edges.sum, torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"values must be \(3, heads, channels\), got \(3, 4\)"):
        edges.attend(torch.zeros(3, 4), torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"logits must be \(2, 1\), got \(2, 2\)"):
        edges.attend(torch.zeros(3, 1, 4), torch.zeros(2, 2))


def test_memory_of_given_edges_is_free_and_numpy_counts_nodes():
    for targets in ([0, 1, 2], [2, 0, 1]):
        given = torch.tensor([[1, 2, 0], targets])
        kept, memory = given.clone(), EdgeIndex.from_edges(given, 3, 3)
        given.zero_()
        assert_same(memory, EdgeIndex.from_edges(kept, 3, 3))
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 2]]), np.int64(4), np.int32(3))
    assert (edges.num_sources, edges.num_targets) == (4, 3)
    assert type(edges.num_sources) is type(edges.num_targets) is int
    assert type(EdgeIndex.from_csr(edges.ptr, edges.source, np.int64(4)).num_sources) is int
