"""Merging faces and undoing it: worked examples, counts, and definitions as dictionaries."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import DualKind, EdgePool, PrimalDualGraph, unpool
from equigeo.mesh.pooling.contraction import contract
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    assert_close,
    components,
    dual_links,
    dual_nodes,
    edge_names,
    graph_of,
    random_graph,
)

KINDS = list(DualKind)
kinds = st.sampled_from(KINDS)


def _marks(graph, seed, share):
    return torch.as_tensor(np.random.default_rng(seed).random(len(graph.undirected)) < share)


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        (shapes.tetrahedron(), (3, 3, 6)),
        (shapes.cube(), (11, 17, 72)),
        (shapes.icosahedron(), (19, 29, 120)),
    ],
)
def test_contracting_any_single_adjacency_gives_the_listed_counts(shape, counts):
    graph = graph_of(shape)
    for u in range(len(graph.undirected)):
        marked = torch.zeros(len(graph.undirected), dtype=torch.bool)
        marked[u] = True
        pooled, _, _ = contract(graph, marked)
        assert (pooled.num_primal, pooled.num_dual, pooled.dual_edges.num_edges) == counts


@given(
    kinds,
    shapes.meshes(),
    shapes.seeds,
    st.sampled_from([0.1, 0.3, 0.6]),
    st.sampled_from(["mean", "sum"]),
)
def test_contraction_equals_its_definition_written_as_dictionaries(
    dual, shape, seed, share, aggregation
):
    graph = random_graph(seed, dual=dual, shape=shape)
    marked = _marks(graph, seed, share)
    marked[:1] = True
    pooled, cluster, dual_to_new = contract(graph, marked, aggregation)
    marked_pairs = [tuple(row) for row in graph.undirected[marked].tolist()]
    label = components(marked_pairs, graph.num_primal)
    if not len(marked):
        assert pooled is graph
        return
    assert cluster.tolist() == label
    members = defaultdict(list)
    for face, c in enumerate(label):
        members[c].append(graph.x_primal[face])
    reduce = (lambda rows: sum(rows) / len(rows)) if aggregation == "mean" else sum
    assert_close(pooled.x_primal, torch.stack([reduce(members[c]) for c in sorted(members)]), 64)
    merged, target = defaultdict(list), []
    for row, (i, j) in zip(graph.x_dual, dual_nodes(dual, edge_names(graph)), strict=True):
        ends = (label[i], label[j])
        name = tuple(sorted(ends)) if dual is DualKind.SINGLE else ends
        target.append(name if ends[0] != ends[1] else None)
        if ends[0] != ends[1]:
            merged[name].append(row)
    names = dual_nodes(dual, edge_names(pooled))
    assert edge_names(pooled) == sorted({tuple(sorted(name)) for name in merged})
    assert dual_to_new.tolist() == [-1 if name is None else names.index(name) for name in target]
    if names:
        assert_close(pooled.x_dual, torch.stack([reduce(merged[name]) for name in names]), 64)
    links = {tuple(row) for row in pooled.dual_edges.edge_index.T.tolist()}
    assert links == dual_links(dual, edge_names(pooled))
    assert len(links) == pooled.dual_edges.num_edges


@given(kinds, shapes.meshes(), shapes.seeds, st.sampled_from([0.1, 0.3, 0.9]))
def test_the_pooled_graph_is_a_graph_again(dual, shape, seed, share):
    graph = graph_of(shape, dual)
    pooled, _, _ = contract(graph, _marks(graph, seed, share))
    rebuilt = PrimalDualGraph.from_adjacency(
        pooled.undirected, dual, pooled.primal_batch, pooled.num_graphs
    )
    for edges in ("primal", "dual_edges"):
        ours, theirs = getattr(pooled, edges), getattr(rebuilt, edges)
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.ptr, theirs.ptr)
    assert torch.equal(pooled.edge_to_dual, rebuilt.edge_to_dual)
    assert torch.equal(pooled.dual_batch, rebuilt.dual_batch)


@pytest.mark.parametrize("dual", KINDS)
def test_contracting_everything_leaves_one_node_per_part(dual):
    shape = shapes.union(shapes.cube(), shapes.moved(shapes.torus(), (5, 0, 0)))
    graph = PrimalDualGraph.batch([random_graph(0, dual=dual, shape=shape)] * 2)
    everything = torch.ones(len(graph.undirected), dtype=torch.bool)
    pooled, _, dual_to_new = contract(graph, everything)
    assert (pooled.num_primal, pooled.num_dual, pooled.num_graphs) == (4, 0, 2)
    assert pooled.primal.num_edges == pooled.dual_edges.num_edges == 0
    assert pooled.primal_batch.tolist() == [0, 0, 1, 1]
    assert bool((dual_to_new == -1).all())
    assert pooled.x_dual.shape == (0, 4)
    assert_close(pooled.x_primal[0], graph.x_primal[:12].mean(dim=0), terms=12)


def test_gradients_reach_every_merged_feature():
    graph = random_graph(0, shape=shapes.bowl())
    x_primal, x_dual = (x.requires_grad_() for x in (graph.x_primal, graph.x_dual))
    pooled, cluster, dual_to_new = contract(graph, _marks(graph, 0, 0.3))
    (pooled.x_primal.sum() + pooled.x_dual.sum()).backward()
    sizes = torch.bincount(cluster)[cluster]
    assert_close(x_primal.grad, (1 / sizes.double())[:, None].expand_as(x_primal))
    assert torch.equal(x_dual.grad.any(dim=1), dual_to_new >= 0)


def test_the_features_of_a_pooled_graph_cannot_be_measured_again():
    pooled, _, _ = contract(graph_of(shapes.cube()), torch.ones(18, dtype=torch.bool))
    with pytest.raises(ValueError, match="pooled graph has no surface"):
        pooled.jitter(0.1)


def _pooled(shape, seed, dual=DualKind.SINGLE, keep=0.6):
    graph = random_graph(seed, dual=dual, shape=shape)
    random = np.random.default_rng(seed)
    attention = torch.as_tensor(random.random((graph.primal.num_edges, 1)))
    return (graph, *EdgePool(keep)(graph, attention))


@given(st.sampled_from(KINDS), shapes.meshes(), shapes.seeds)
def test_every_face_receives_the_mean_of_its_cluster_and_lost_pairs_the_fill(dual, shape, seed):
    graph, pooled, log = _pooled(shape, seed, dual)
    fill = torch.arange(4, dtype=F64)
    restored, x_primal, x_dual = unpool(log, pooled.x_primal, pooled.x_dual, fill)
    assert restored is graph
    for c in range(pooled.num_primal):
        members = log.cluster == c
        mean = graph.x_primal[members].mean(dim=0)
        assert_close(x_primal[members], mean.expand(int(members.sum()), -1), terms=16)
    lost = log.dual_to_new < 0
    assert torch.equal(x_dual[lost], fill.expand(int(lost.sum()), -1))
    assert torch.equal(x_dual[~lost], pooled.x_dual[log.dual_to_new[~lost]])
    arrays = [x.numpy() for x in (pooled.x_primal, pooled.x_dual, fill)]
    assert all(map(torch.equal, unpool(log, *arrays)[1:], (x_primal, x_dual)))


def test_gradients_of_unpooling_reach_the_clusters_and_the_fill():
    graph, pooled, log = _pooled(shapes.bowl(), 0)
    x_primal, x_dual = (x.clone().requires_grad_() for x in (pooled.x_primal, pooled.x_dual))
    fill = torch.zeros(4, dtype=F64, requires_grad=True)
    _, wide_primal, wide_dual = unpool(log, x_primal, x_dual, fill)
    (wide_primal.sum() + wide_dual.sum()).backward()
    sizes = torch.bincount(log.cluster).double()
    assert_close(x_primal.grad, sizes[:, None].expand_as(x_primal))
    assert_close(fill.grad, torch.full((4,), float((log.dual_to_new < 0).sum())))
    assert x_dual.grad.sum() + fill.grad.sum() == 4 * graph.num_dual
