import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import DualKind, EdgePool, PrimalDualGraph, unpool
from equigeo.mesh.nn.contraction import contract
from equigeo.mesh.nn.pooling import edge_scores
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    assert_close,
    attention_from,
    components,
    count_calls,
    directed_names,
    dual_links,
    dual_nodes,
    edge_names,
    graph_of,
    random_graph,
)

KINDS = list(DualKind)
HIGH = [(0, 10), (6, 7), (7, 11), (10, 11), (1, 5), (2, 3), (3, 8), (4, 13)]
CLUSTERS = [{0, 6, 7, 10, 11}, {1, 5}, {2, 3, 8}, {4, 13}, {9}, {12}]
NEW_EDGES = [(0, 1), (0, 4), (0, 5), (1, 2), (1, 3), (2, 3), (2, 4), (3, 5)]
OLD_TO_NEW = [0, -1, -1, 3, -1, -1, 6, 5, -1, 4, -1, 0, -1, 2, -1, 6, 5, 1, -1, 2, 7]
CRITERIA = ({"keep": 0.619}, {"keep": 13 / 21}, {"num_to_keep": 13}, {"threshold": 0.5})


def _example(dual=DualKind.SINGLE):
    """The closed strip with eight high scores, and a lopsided one that must stay."""
    graph = random_graph(0, dual=dual, shape=shapes.closed_strip())
    attention = attention_from(graph, dict.fromkeys(HIGH, 0.8), rest=0.1)
    names = directed_names(graph)
    attention[names.index((1, 2))], attention[names.index((2, 1))] = 0.2, 0.7
    return graph, attention


def _random_attention(graph, seed, levels=1000, heads=2):
    random = np.random.default_rng(seed)
    size = (graph.primal.num_edges, heads)
    return torch.as_tensor(random.integers(0, levels, size=size) / levels)


def _partition(cluster):
    members = {}
    for face, c in enumerate(cluster.tolist()):
        members.setdefault(c, set()).add(face)
    return [members[c] for c in sorted(members)]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_closed_strip_pools_into_the_listed_graph(criterion):
    graph, attention = _example()
    pooled, log = EdgePool(**criterion)(graph, attention)
    assert _partition(log.cluster) == CLUSTERS
    assert edge_names(pooled) == NEW_EDGES
    assert sorted(pooled.primal.ptr.diff().tolist()) == [2, 2, 3, 3, 3, 3]
    assert pooled.dual_edges.num_edges == 28
    assert log.dual_to_new.tolist() == OLD_TO_NEW
    assert (log.num_contracted, log.num_refused) == (8, 0)
    assert log.graph is graph
    means = [graph.x_primal[list(members)].mean(dim=0) for members in CLUSTERS]
    assert_close(pooled.x_primal, torch.stack(means), terms=5)
    old = [[u for u, new in enumerate(OLD_TO_NEW) if new == v] for v in range(8)]
    assert_close(pooled.x_dual, torch.stack([graph.x_dual[rows].mean(dim=0) for rows in old]))


def test_scores_average_heads_and_directions_and_get_no_gradient():
    graph = random_graph(0, shape=shapes.bowl())
    attention = _random_attention(graph, 0, heads=3)
    expected = torch.zeros(len(graph.undirected), dtype=F64)
    names = edge_names(graph)
    for edge, row in zip(directed_names(graph), attention, strict=True):
        expected[names.index(tuple(sorted(edge)))] += row.mean() / 2
    assert_close(edge_scores(graph, attention), expected)
    graph = random_graph(0, shape=shapes.bowl())
    attention = _random_attention(graph, 0).requires_grad_()
    features = graph.x_primal.requires_grad_()
    pooled, _ = EdgePool(0.7)(graph, attention)
    pooled.x_primal.sum().backward()
    assert attention.grad is None
    assert bool(features.grad.all())


def test_contracting_nothing_returns_the_graph_itself():
    graph = random_graph(0, shape=shapes.cube())
    for criterion in ({"keep": 1.0}, {"num_to_keep": 99}, {"threshold": 1.0}):
        pooled, log = EdgePool(**criterion)(graph, _random_attention(graph, 0))
        assert pooled is graph
        assert log.num_contracted == 0
        assert log.cluster.tolist() == list(range(graph.num_primal))
        assert log.dual_to_new.tolist() == list(range(graph.num_dual))
    with pytest.raises(ValueError, match=r"attention must be \(36, heads\), got \(35, 1\)"):
        EdgePool(0.8)(graph, torch.zeros(35, 1))
    with pytest.raises(ValueError, match=r"attention must be \(36, heads\), got \(36,\)"):
        EdgePool(0.8)(graph, torch.zeros(36))


@pytest.mark.parametrize(("keep", "share"), [(0.8, 0.70), (0.7, 0.55)])
def test_random_scores_leave_the_measured_share_of_faces_and_links(keep, share):
    graph = graph_of(shapes.icosphere(4))
    pooled, _ = EdgePool(keep)(graph, _random_attention(graph, 0, levels=2**40))
    assert abs(pooled.num_primal / graph.num_primal - share) < 0.01
    assert abs(pooled.dual_edges.num_edges / graph.dual_edges.num_edges - 1) < 0.1


@given(shapes.meshes(), shapes.seeds, st.sampled_from([0.5, 0.7, 0.8]))
def test_without_consecutive_contractions_clusters_are_pairs(shape, seed, keep):
    graph = graph_of(shape)
    pool = EdgePool(keep, allow_consecutive=False)
    _, log = pool(graph, _random_attention(graph, seed, levels=2**40))
    assert int(torch.bincount(log.cluster).max()) <= 2
    quota = int(np.floor((1 - keep) * len(graph.undirected) + 1e-9))
    assert log.num_contracted + log.num_refused == quota
    if len(graph.undirected) and quota:  # the best edge has no better neighbour
        assert log.num_contracted >= 1


@given(
    st.sampled_from([{"keep": 0.7}, {"num_to_keep": 5}, {"threshold": 0.6}]),
    st.sampled_from(KINDS),
    shapes.meshes(),
    shapes.seeds,
)
def test_a_batch_pools_mesh_by_mesh(criterion, dual, shape, seed):
    several = (shape, shapes.triangle(), shapes.bowl())
    parts = [random_graph(s, dual=dual, shape=m) for s, m in enumerate(several)]
    attention = [_random_attention(part, seed + i) for i, part in enumerate(parts)]
    pool = EdgePool(**criterion)
    separate = [pool(part, a) for part, a in zip(parts, attention, strict=True)]
    together, log = pool(PrimalDualGraph.batch(parts), torch.cat(attention))
    expected = PrimalDualGraph.batch([graph for graph, _ in separate])
    for name in ("x_primal", "x_dual", "undirected", "edge_to_dual", "primal_batch", "dual_batch"):
        assert torch.equal(getattr(together, name), getattr(expected, name)), name
    assert log.num_contracted == sum(part.num_contracted for _, part in separate)


POOLS = [
    *(EdgePool(keep=0.7), EdgePool(num_to_keep=4), EdgePool(keep=0.5, allow_consecutive=False)),
    *(EdgePool(keep=0.3, max_cluster_size=4), EdgePool(keep=0.3, max_degree=6)),
]


@given(st.sampled_from(POOLS), shapes.meshes(), shapes.seeds, st.sampled_from([1, 3, 8, 10_000]))
def test_renumbering_faces_permutes_clusters_even_with_ties(pool, shape, seed, levels):
    graph, random = graph_of(shape), np.random.default_rng(seed)
    scores = {edge: int(random.integers(levels)) / levels for edge in edge_names(graph)}
    order = shapes.permutation(shape.num_faces, seed)
    renumbered = graph_of(shapes.renumbered_faces(shape, order))
    place = torch.argsort(order).tolist()
    moved = {tuple(sorted((place[i], place[j]))): score for (i, j), score in scores.items()}
    _, log = pool(graph, attention_from(graph, scores))
    _, new_log = pool(renumbered, attention_from(renumbered, moved))
    expected = {frozenset(members) for members in _partition(log.cluster)}
    got = {frozenset(order[list(m)].tolist()) for m in _partition(new_log.cluster)}
    assert got == expected
    assert new_log.num_contracted == log.num_contracted


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_rounding_does_not_break_ties(pool):
    # Symmetric meshes have equal scores up to rounding, which follows the numbering of faces.
    graph = random_graph(0, shape=shapes.torus())
    for levels, seed in itertools.product([1, 4], range(5)):
        attention = _random_attention(graph, 0, levels)
        pooled, log = pool(graph, attention)
        again, noisy_log = pool(graph, attention + 1e-14 * (_random_attention(graph, seed) - 0.5))
        assert torch.equal(noisy_log.cluster, log.cluster)
        assert torch.equal(again.undirected, pooled.undirected)


def test_constant_scores_contract_nothing_or_all_and_no_adjacencies_pass():
    graph = random_graph(0, shape=shapes.icosphere(2))
    constant = torch.full((graph.primal.num_edges, 1), 1 / 3, dtype=F64)
    pooled, log = EdgePool(keep=0.8)(graph, constant)
    assert pooled is graph
    assert log.num_refused == 96
    assert EdgePool(keep=0.0)(graph, constant)[0].num_primal == 1
    for shape in (shapes.triangle(), shapes.two_isolated()):
        graph = random_graph(0, shape=shape)
        for criterion in CRITERIA:
            pooled, log = EdgePool(**criterion)(graph, torch.zeros(0, 2))
            assert pooled is graph
            assert log.num_contracted == 0


def test_hubs_are_capped_where_scores_are_smooth():
    shape = shapes.icosphere(4)
    graph = graph_of(shape)
    height = shape.vertices[shape.faces].mean(dim=1)[:, 2]
    attention = height[graph.primal.edge_index].sum(dim=0)[:, None]
    free, _ = EdgePool(keep=0.6, max_degree=None)(graph, attention)
    capped, log = EdgePool(keep=0.6, max_degree=12)(graph, attention)
    assert int(free.primal.ptr.diff().max()) > 64
    assert int(capped.primal.ptr.diff().max()) <= 12
    assert log.num_refused > 0
    assert log.num_contracted + log.num_refused == 3072
    assert int(EdgePool(keep=0.6)(graph, attention)[0].primal.ptr.diff().max()) <= 64
    sizes = torch.bincount(EdgePool(keep=0.6, max_cluster_size=5)(graph, attention)[1].cluster)
    assert int(sizes.max()) <= 5


@pytest.mark.parametrize(
    "pool",
    [
        EdgePool(keep=0.8),
        EdgePool(keep=0.7, max_cluster_size=4),
    ],
    ids=str,
)
def test_the_number_of_calls_does_not_grow_with_the_mesh(pool):
    calls = []
    for subdivisions in (2, 5):
        graph = random_graph(0, shape=shapes.icosphere(subdivisions))
        attention = _random_attention(graph, 0, levels=2**40)
        pool(graph, attention)
        calls.append(count_calls(lambda g=graph, a=attention: pool(g, a)))
    assert calls[1] < 1.5 * calls[0]  # 64 times as many faces; rounds grow like their logarithm


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of"),
        ({"keep": 0.5, "threshold": 0.1}, "exactly one of"),
        ({"keep": 1.5}, "keep must lie in"),
        ({"keep": float("nan")}, "keep must lie in"),
        ({"num_to_keep": -1}, "must not be negative"),
        ({"keep": 0.5, "aggregation": "max"}, "must be one of.*got 'max'"),
    ],
)
def test_bad_criteria_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        EdgePool(**arguments)


kinds = st.sampled_from(KINDS)


def _marks(graph, seed, share):
    return torch.as_tensor(np.random.default_rng(seed).random(len(graph.undirected)) < share)


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


def test_gradients_reach_merged_features_clusters_and_the_fill():
    graph = random_graph(0, shape=shapes.bowl())
    x_primal, x_dual = (x.requires_grad_() for x in (graph.x_primal, graph.x_dual))
    pooled, cluster, dual_to_new = contract(graph, _marks(graph, 0, 0.3))
    (pooled.x_primal.sum() + pooled.x_dual.sum()).backward()
    sizes = torch.bincount(cluster)[cluster]
    assert_close(x_primal.grad, (1 / sizes.double())[:, None].expand_as(x_primal))
    assert torch.equal(x_dual.grad.any(dim=1), dual_to_new >= 0)
    graph, pooled, log = _pooled(shapes.bowl(), 0)
    x_primal, x_dual = (x.clone().requires_grad_() for x in (pooled.x_primal, pooled.x_dual))
    fill = torch.zeros(4, dtype=F64, requires_grad=True)
    _, wide_primal, wide_dual = unpool(log, x_primal, x_dual, fill)
    (wide_primal.sum() + wide_dual.sum()).backward()
    sizes = torch.bincount(log.cluster).double()
    assert_close(x_primal.grad, sizes[:, None].expand_as(x_primal))
    assert_close(fill.grad, torch.full((4,), float((log.dual_to_new < 0).sum())))
    assert x_dual.grad.sum() + fill.grad.sum() == 4 * graph.num_dual


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
