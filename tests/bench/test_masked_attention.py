"""Masked attention: what it computes, what it leaves alone, and which faces its mask finds."""

import math

import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from bench.masked_attention import AttentionMask, MaskedAttention, MeshAttention, hop_pairs
from equigeo.graphs import EdgeIndex
from equigeo.mesh import EdgePool, PrimalDualGraph, TriangleMesh
from equigeo.testing import tolerance
from tests.mesh import shapes
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, terms=80)  # faces that one face attends to


def graph_of(mesh: TriangleMesh) -> PrimalDualGraph:
    return PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)


def bumpy(seed: int = 0) -> TriangleMesh:
    return shapes.lumpy(shapes.icosphere(1), seed=seed)


def attention(**options: object) -> MeshAttention:
    torch.manual_seed(0)
    layer = MeshAttention((4, 8), heads=2, **options).double()  # type: ignore[arg-type]
    torch.nn.init.normal_(layer.of_hops)  # zero at first, which would hide mistakes
    return layer


def widened(graph: PrimalDualGraph) -> PrimalDualGraph:
    """Four invariant channels on faces, of which shapes have one."""
    return graph.with_features(graph.x_primal * torch.tensor([1.0, 2, -1, 0.5]), graph.x_dual)


def distances(graph: PrimalDualGraph) -> Tensor:
    dense = torch.zeros(graph.num_primal, graph.num_primal)
    dense[graph.primal.target, graph.primal.source] = 1
    return torch.from_numpy(shortest_path(dense.numpy(), unweighted=True))


def test_a_block_is_dense_attention_under_a_mask() -> None:
    torch.manual_seed(0)
    block = MaskedAttention(6, heads=2).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    seen = torch.rand(5, 5) < 0.5
    seen[3] = False  # a node without an edge
    target, source = seen.nonzero().unbind(1)
    mask = EdgeIndex.from_edges(torch.stack([source, target]), 5, 5)
    bias = torch.randn(mask.num_edges, 2, dtype=torch.float64)
    u = block.attention_norm(x)
    query, key, value = block.query_key_value(u).unflatten(1, (3, 2, 3)).unbind(1)
    logits = torch.einsum("thc,shc->tsh", query, key) / math.sqrt(3)
    logits = logits.index_put((target, source), bias, accumulate=True)
    weights = logits.masked_fill(~seen[:, :, None], -math.inf).softmax(1).nan_to_num()
    y = x + block.attention_out(torch.einsum("tsh,shc->thc", weights, value).flatten(1))
    gate, up = block.gate_and_value(block.network_norm(y)).chunk(2, 1)
    want = y + block.network_out(torch.nn.functional.gelu(gate) * up)
    torch.testing.assert_close(block(x, mask, bias), want)


@pytest.mark.parametrize("make", [shapes.cube, bumpy, shapes.torus])
def test_hops_are_shortest_paths(make: object) -> None:
    graph = graph_of(make())  # type: ignore[operator]
    want = distances(graph)
    for k, pairs in enumerate(hop_pairs(graph.primal, 5), 1):
        target, source = (want == k).nonzero().unbind(1)
        assert torch.equal(pairs, torch.stack([source, target]))


def test_a_mask_has_hops_and_the_tokens_of_the_same_mesh() -> None:
    graph = PrimalDualGraph.batch([graph_of(shapes.cube()), graph_of(bumpy())])
    mask = AttentionMask.of(graph, (1, 3), tokens=2)
    n = graph.num_primal
    hops = distances(graph)
    want = torch.zeros(n + 4, n + 4, dtype=torch.int64)
    want[:n, :n] = torch.where((hops == 1) | (hops == 3), hops, 0).long()
    for token in range(4):
        own = torch.nonzero(graph.primal_batch == token // 2).squeeze(1)
        want[own, n + token] = 4
        want[n + token, own] = 5
    seen = torch.zeros_like(want).index_put((mask.edges.target, mask.edges.source), mask.kind)
    assert torch.equal(seen, want)
    assert mask.edges.num_edges == int((want > 0).sum())
    at = mask.neighbours
    ends = torch.stack([mask.edges.source[at], mask.edges.target[at]])
    assert torch.equal(ends.sort(0).values.T, graph.undirected[mask.dual])
    # The cost of tokens is linear in faces.
    more = AttentionMask.of(graph, (1, 3), tokens=3)
    assert more.edges.num_edges - mask.edges.num_edges == 2 * n


def test_batches_are_meshes_side_by_side_pooled_or_not() -> None:
    layer = attention()
    graphs = [widened(graph_of(mesh)) for mesh in (bumpy(), shapes.cube())]
    graphs += [
        EdgePool(keep=0.8)(g, torch.rand(g.primal.num_edges, 1, dtype=torch.float64))[0]
        for g in graphs
    ]
    for pair in (graphs[:2], graphs[2:]):
        want = torch.cat([layer(graph).x_primal for graph in pair])
        got = layer(PrimalDualGraph.batch(pair)).x_primal
        torch.testing.assert_close(got, want, **CLOSE)


def test_a_face_alone_attends_to_tokens() -> None:
    one = TriangleMesh(torch.eye(3, dtype=torch.float64), torch.tensor([[0, 1, 2]]))
    out = attention()(widened(graph_of(one))).x_primal
    assert out.shape == (1, 4)
    assert out.isfinite().all()


def test_what_does_not_fit_is_named() -> None:
    refused("heads divide channels", MaskedAttention, 6, heads=4)
    refused("must be positive", MeshAttention, (4, 4), tokens=0)
    unsorted = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 0]]))
    refused("sorted", MaskedAttention(4), torch.zeros(2, 4), unsorted)
