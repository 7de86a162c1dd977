from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.groups import O
from equigeo.mesh import MaskedAttention, TriangleMesh, attention_mask
from equigeo.reps import Irreps, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.mesh import shapes
from tests.mesh.definitions import F64
from tests.wrong_inputs import refused

NODES, EDGES = Irreps("5x0e + 3x1o"), Irreps("2x0e + 1o")
EXACT = {"rtol": 1e-12, "atol": 1e-12}  # sums of fewer than 100 products in float64


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def layer(*reps: Any, **options: Any) -> MaskedAttention:
    torch.manual_seed(0)
    return MaskedAttention(*(reps or (NODES, NODES, EDGES)), **options).double()


def pairs(mask: EdgeIndex) -> set[tuple[int, int]]:
    return {(s, t) for s, t in mask.edge_index.T.tolist()}


def dense(conv: MaskedAttention, x: Tensor, mask: EdgeIndex, x_edge: Tensor | None) -> Tensor:
    """A softmax over all pairs, minus infinity where there is no edge; rows need one."""
    source, target = mask.edge_index
    invariants = conv.copies.invariants(x)
    q, k = (f(invariants).unflatten(1, (conv.heads, -1)) for f in (conv.query, conv.key))
    logits = torch.einsum("thc,shc->tsh", q, k) / conv.channels**0.5
    seen = torch.full_like(logits, -torch.inf)
    seen[target, source] = logits[target, source]
    if x_edge is not None:
        seen[target, source] += conv.edge_bias(conv.edge_copies.invariants(x_edge))
    weights = seen.softmax(1)
    values = conv.value(x).unflatten(1, (conv.heads, -1))
    parts = [torch.einsum("tsh,shc->thc", weights, values).flatten(1)]
    if x_edge is not None:
        on_pairs = x_edge.new_zeros(len(x), len(x), x_edge.shape[1])
        on_pairs[target, source] = x_edge
        parts.append(torch.einsum("tsh,tsc->thc", weights, on_pairs).flatten(1))
    return conv.out(torch.cat(parts, 1))


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("shuffled", [False, True])
def test_it_is_dense_attention_under_a_mask(heads: int, shuffled: bool) -> None:
    mask = attention_mask(shapes.icosahedron(), hops=2, dilation=1, tokens=2)
    if shuffled:
        order = torch.randperm(mask.num_edges, generator=torch.Generator().manual_seed(0))
        mask = EdgeIndex.from_edges(mask.edge_index[:, order])
        assert not mask.is_sorted
    x, x_edge = drawn(14, NODES.dim), drawn(mask.num_edges, EDGES.dim, seed=1)
    conv = layer(heads=heads)
    torch.testing.assert_close(conv(x, mask, x_edge), dense(conv, x, mask, x_edge), **EXACT)
    plain = layer(Trivial(O(3), 7), Trivial(O(3), 4), heads=heads)
    found, want = plain(x[:, :7], mask), dense(plain, x[:, :7], mask, None)
    torch.testing.assert_close(found, want, **EXACT)


@pytest.mark.parametrize("reps", [(NODES, NODES, EDGES), (2 * TensorRep(O(3), up=2), "1e + 2e")])
def test_features_turn_and_reflect_with_the_inputs(reps: tuple[Any, ...]) -> None:
    mask, conv = attention_mask(shapes.octahedron(), hops=1), layer(*reps, heads=2)
    features = [drawn(rows, rep.dim) for rows, rep in zip((6, 24), conv.rep_in, strict=False)]
    declared = [conv.rep_in[0], None, *conv.rep_in[1:]]
    inputs = [features[0], mask, *features[1:]]
    assert_equivariant(conv, declared, conv.rep_out, inputs=inputs, condition=16.0)

    def read_components(x: Tensor, *rest: Any) -> Tensor:
        return conv(x + x[:, -1:], *rest)

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(read_components, declared, conv.rep_out, inputs=inputs)


def test_order_of_nodes_and_other_meshes_of_a_batch_do_not_matter() -> None:
    conv, meshes = layer(), (shapes.icosahedron(), shapes.octahedron())
    masks = [attention_mask(mesh, hops=2) for mesh in meshes]
    nodes = [drawn(mesh.num_vertices, NODES.dim) for mesh in meshes]
    edges = [drawn(mask.num_edges, EDGES.dim) for mask in masks]
    each = [conv(*given) for given in zip(nodes, masks, edges, strict=True)]
    found = conv(torch.cat(nodes), EdgeIndex.disjoint_union(masks), torch.cat(edges))
    close = tolerance(F64, 64)
    torch.testing.assert_close(found, torch.cat(each), **close)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    renamed = EdgeIndex.from_edges(order.argsort()[masks[0].edge_index])
    torch.testing.assert_close(conv(nodes[0][order], renamed, edges[0]), each[0][order], **close)


def test_nodes_without_edges_have_the_bias() -> None:
    conv = layer()
    with torch.no_grad():
        conv.out.bias.fill_(3.0)
    mask = EdgeIndex.from_edges(torch.tensor([[0], [1]]), 3, 3)
    found = conv(drawn(3, NODES.dim), mask, drawn(1, EDGES.dim))
    alone = torch.zeros(NODES.dim, dtype=F64)
    alone[:5] = 3.0
    assert torch.equal(found[[0, 2]], alone.expand(2, -1))
    assert not torch.equal(found[1], alone)
    nothing = EdgeIndex.from_edges(torch.zeros((2, 0), dtype=torch.int64))
    assert conv(drawn(0, NODES.dim), nothing, drawn(0, EDGES.dim)).shape == (0, NODES.dim)


@pytest.mark.parametrize(("hops", "dilation"), [(0, 1), (1, 1), (3, 1), (2, 2), (9, 1), (1, 3)])
def test_neighborhoods_are_those_of_shortest_paths(hops: int, dilation: int) -> None:
    mesh = shapes.icosphere(1)
    step = np.zeros((mesh.num_vertices,) * 2)
    for face in mesh.faces.tolist():
        step[np.ix_(face, face)] = 1
    steps = shortest_path(step, unweighted=True)
    wanted = [dilation * (k + 1) for k in range(hops)]
    rows, columns = np.isin(steps, wanted).nonzero()
    mask = attention_mask(mesh, hops=hops, dilation=dilation)
    assert pairs(mask) == set(zip(columns.tolist(), rows.tolist(), strict=True))
    assert mask.num_edges == len(rows)
    assert mask.is_sorted


def test_paths_follow_the_direction_of_edges() -> None:
    chain = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 2]]))
    assert pairs(attention_mask(chain, hops=2)) == {(0, 1), (1, 2), (0, 2)}
    assert pairs(attention_mask(chain, hops=1, dilation=2)) == {(0, 2)}


def test_random_edges_and_tokens_stay_in_their_part() -> None:
    parts = [attention_mask(shapes.icosahedron()), attention_mask(shapes.octahedron())]
    union, ptr = EdgeIndex.disjoint_union(parts), torch.tensor([0, 12, 12, 18])

    def mask(seed: int, **options: Any) -> EdgeIndex:
        generator = torch.Generator().manual_seed(seed)
        return attention_mask(union, ptr=ptr, generator=generator, **options)

    found = pairs(mask(0, hops=0, random=5))
    part = (np.arange(18) >= 12).tolist()
    assert all(part[s] == part[t] and s != t for s, t in found)
    sources = [sum(t == node for _, t in found) for node in range(18)]
    assert 18 < sum(sources)
    assert max(sources) <= 5
    assert pairs(mask(0, hops=0, random=5)) == found != pairs(mask(1, hops=0, random=5))
    assert pairs(mask(0, random=5)) == found | pairs(union)
    both = pairs(mask(0, hops=0, tokens=2))
    to_tokens = {(n, 18 + 2 * (0 if n < 12 else 2) + i) for n in range(18) for i in range(2)}
    assert both == to_tokens | {(t, s) for s, t in to_tokens}
    assert mask(0, tokens=2).num_targets == 24


def test_what_does_not_fit_is_named() -> None:
    mesh, conv = shapes.octahedron(), layer()
    mask, x = attention_mask(mesh), drawn(6, NODES.dim)
    x_edge = drawn(mask.num_edges, EDGES.dim)
    refused("heads and channels must be positive", layer, heads=0)
    refused("rep_edge must be of O", layer, NODES, NODES, Trivial(O(2), 3))
    refused("rep_in", layer, "nonsense", NODES)
    refused("x_edge must be features, got None", conv, x, mask)
    refused("has no rep_edge", layer(NODES, NODES), x, mask, x_edge)
    refused(r"x must be \(6, 14\)", conv, x[:5], mask, x_edge)
    refused(r"x_edge must be \(24, 5\)", conv, x, mask, x_edge[:3])
    refused("must be torch.float64", conv, x.float(), mask, x_edge, error=TypeError)
    refused("mask must be an EdgeIndex", conv, x, mask.edge_index, x_edge, error=TypeError)
    bipartite = EdgeIndex.from_edges(mask.edge_index, 6, 7)
    refused("as many sources as targets", conv, x, bipartite, x_edge)
    refused("as many sources as targets", attention_mask, bipartite)
    refused("graph must be a TriangleMesh or an EdgeIndex", attention_mask, x, error=TypeError)
    for name, value in (("hops", -1), ("dilation", 0), ("random", -1), ("tokens", -1)):
        refused(f"{name} must be at least", attention_mask, mesh, **{name: value})
    refused("hops must be an integer", attention_mask, mesh, hops=1.5, error=TypeError)
    refused("ptr must start at 0", attention_mask, mesh, ptr=torch.tensor([0, 3]))


def test_a_mesh_without_faces_has_no_edges() -> None:
    empty = TriangleMesh(torch.zeros(3, 3), torch.zeros((0, 3), dtype=torch.int64))
    assert attention_mask(empty, hops=2).num_edges == 0
    assert attention_mask(empty, hops=2, tokens=1).num_edges == 6
    none = TriangleMesh(torch.zeros(0, 3), torch.zeros((0, 3), dtype=torch.int64))
    assert attention_mask(none, random=2, tokens=1).num_targets == 1
