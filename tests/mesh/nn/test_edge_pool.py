import itertools
from collections import defaultdict
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import (
    DualKind,
    EdgePool,
    PrimalDualClassifier,
    PrimalDualGraph,
    PrimalDualSegmenter,
    unpool,
)
from equigeo.mesh.nn import contraction as edge_selection
from equigeo.mesh.nn.contraction import contract, dominant_matching, select_top
from equigeo.mesh.nn.pooling import edge_scores, limit_clusters
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
from tests.tier import tier
from tests.wrong_inputs import refused

HIGH = [(0, 10), (6, 7), (7, 11), (10, 11), (1, 5), (2, 3), (3, 8), (4, 13)]
CLUSTERS = [{0, 6, 7, 10, 11}, {1, 5}, {2, 3, 8}, {4, 13}, {9}, {12}]
NEW_EDGES = [(0, 1), (0, 4), (0, 5), (1, 2), (1, 3), (2, 3), (2, 4), (3, 5)]
OLD_TO_NEW = [0, -1, -1, 3, -1, -1, 6, 5, -1, 4, -1, 0, -1, 2, -1, 6, 5, 1, -1, 2, 7]
CRITERIA = ({"keep": 0.619}, {"keep": 13 / 21}, {"num_to_keep": 13}, {"threshold": 0.5})


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
    graph = random_graph(0, shape=shapes.closed_strip())
    attention = attention_from(graph, dict.fromkeys(HIGH, 0.8), rest=0.1)
    names = directed_names(graph)  # a lopsided score must stay
    attention[names.index((1, 2))], attention[names.index((2, 1))] = 0.2, 0.7
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
    attention = _random_attention(graph, 0, heads=3).requires_grad_()
    names, expected = edge_names(graph), torch.zeros(len(graph.undirected), dtype=F64)
    for edge, row in zip(directed_names(graph), attention.detach(), strict=True):
        expected[names.index(tuple(sorted(edge)))] += row.mean() / 2
    assert_close(edge_scores(graph, attention), expected)
    features = graph.x_primal.requires_grad_()
    EdgePool(0.7)(graph, attention)[0].x_primal.sum().backward()
    assert attention.grad is None
    assert bool(features.grad.all())


def test_contracting_nothing_returns_the_graph_itself():
    graph = random_graph(0, shape=shapes.cube())
    cases = [(graph, {"keep": 1.0}), (graph, {"num_to_keep": 99}), (graph, {"threshold": 1.0})]
    for shape in (shapes.triangle(), shapes.two_isolated()):
        cases += [(random_graph(0, shape=shape), criterion) for criterion in CRITERIA]
    for each, criterion in cases:
        pooled, log = EdgePool(**criterion)(each, _random_attention(each, 0))
        assert pooled is each
        assert log.num_contracted == 0
        assert log.cluster.tolist() == list(range(each.num_primal))
        assert log.dual_to_new.tolist() == list(range(each.num_dual))
    pool = EdgePool(0.8)
    refused(r"attention must be \(36, heads\), got \(35, 1\)", pool, graph, torch.zeros(35, 1))
    refused(r"attention must be \(36, heads\), got \(36,\)", pool, graph, torch.zeros(36))
    graph = random_graph(0, shape=shapes.icosphere(2))
    constant = torch.full((graph.primal.num_edges, 1), 1 / 3, dtype=F64)
    pooled, log = EdgePool(keep=0.8)(graph, constant)
    assert pooled is graph
    assert log.num_refused == 96
    assert EdgePool(keep=0.0)(graph, constant)[0].num_primal == 1


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
    if len(graph.undirected) and quota:  # the best edge has no better neighbor
        assert log.num_contracted >= 1


CHOICES = st.sampled_from([{"keep": 0.7}, {"num_to_keep": 5}, {"threshold": 0.6}])


@given(CHOICES, shapes.kinds, shapes.meshes(), shapes.seeds)
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
    *(EdgePool(keep=0.3, max_cluster_size=4, max_degree=5), EdgePool(keep=0.3, max_degree=6)),
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


def test_pooling_number_of_calls_is_independent_of_mesh_size():
    pools = EdgePool(keep=0.8), EdgePool(keep=0.7, max_cluster_size=4)
    for pool, sizes in product(pools, ((2, 3), (4, 5))):  # large edge lists are counted by SciPy
        calls = []
        for subdivisions in sizes:
            graph = random_graph(0, shape=shapes.icosphere(subdivisions))
            attention = _random_attention(graph, 0, levels=2**40)
            pool(graph, attention)
            calls.append(count_calls(partial(pool, graph, attention)))
        assert calls[1] < 1.5 * calls[0]  # 4x as many faces; rounds grow like the logarithm


def test_bad_criteria_are_refused():
    for arguments, message in (
        ({}, "exactly one of"),
        ({"keep": 0.5, "threshold": 0.1}, "exactly one of"),
        ({"keep": 1.5}, "keep must lie in"),
        ({"keep": float("nan")}, "keep must lie in"),
        ({"num_to_keep": -1}, "must not be negative"),
        ({"keep": 0.5, "aggregation": "max"}, "must be one of.*got 'max'"),
    ):
        refused(message, EdgePool, **arguments)


def _marks(graph, seed, share):
    return torch.as_tensor(np.random.default_rng(seed).random(len(graph.undirected)) < share)


SHARES, AGGREGATIONS = st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.sampled_from(["mean", "sum"])


@given(shapes.kinds, shapes.meshes(), shapes.seeds, SHARES, AGGREGATIONS)
def test_contraction_equals_its_definition(dual, shape, seed, share, aggregation):
    graph = random_graph(seed, dual=dual, shape=shape)
    marked = _marks(graph, seed, share)
    marked[:1] = True
    pooled, cluster, dual_to_new = contract(graph, marked, aggregation)
    label = components(graph.undirected[marked], graph.num_primal)
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


@given(shapes.kinds, shapes.meshes(), shapes.seeds, SHARES)
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
    pooled, _, _ = contract(graph_of(shapes.cube()), torch.ones(18, dtype=torch.bool))
    refused("pooled graph has no surface", pooled.jitter, 0.1)


def _pooled(shape, seed, dual=DualKind.SINGLE, keep=0.6):
    graph = random_graph(seed, dual=dual, shape=shape)
    random = np.random.default_rng(seed)
    attention = torch.as_tensor(random.random((graph.primal.num_edges, 1)))
    return (graph, *EdgePool(keep)(graph, attention))


@given(shapes.kinds, shapes.meshes(), shapes.seeds)
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


def test_gradients_of_networks_are_sums_in_a_fixed_order():
    # PyTorch sums the gradient of indexing by atomic additions where it has several threads.
    mesh = shapes.icosphere(1)
    for network in (PrimalDualClassifier, PrimalDualSegmenter):
        nodes = [network.preset("default", 3)([mesh, mesh]).grad_fn]
        for node in nodes:  # grows
            nodes += [next_ for next_, _ in node.next_functions if next_ not in {None, *nodes}]
        names = {node.name() for node in nodes}
        assert "IndexSelectBackward0" in names
        assert "IndexBackward0" not in names


@given(shapes.seeds)
def test_distinct_scores_give_the_sorted_top_of_each_mesh(seed):
    random = np.random.default_rng(seed)
    counts = torch.as_tensor(random.integers(0, 12, size=4))
    scores = torch.as_tensor(random.permutation(int(counts.sum())), dtype=F64)
    batch = torch.arange(4).repeat_interleave(counts)
    quota = torch.as_tensor(random.integers(0, 14, size=4))
    expected = torch.zeros(len(scores), dtype=torch.bool)
    for mesh, k in enumerate(quota.tolist()):
        members = torch.nonzero(batch == mesh).flatten()
        expected[members[torch.argsort(scores[members], descending=True)[:k]]] = True
    assert torch.equal(select_top(scores, batch, quota), expected)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 30), shapes.seeds)
def test_a_tied_group_is_taken_whole_or_left_whole_and_never_beyond_the_quota(levels, k, seed):
    scores = torch.tensor(levels, dtype=F64)
    batch, quota = torch.zeros(len(levels), dtype=torch.int64), torch.tensor([k])
    marked = select_top(scores, batch, quota)
    better = [int((scores >= score).sum()) for score in scores]
    assert marked.tolist() == [count <= k for count in better]
    order = shapes.permutation(len(levels), seed)
    assert torch.equal(select_top(scores[order], batch, quota), marked[order])


def test_scores_within_rounding_are_tied_and_no_edges_mark_nothing():
    scores = torch.tensor([0.5, 0.5 + 1e-12, 0.9, 0.5 - 1e-12], dtype=F64)
    batch = torch.zeros(4, dtype=torch.int64)
    marked = select_top(scores, batch, torch.tensor([2]))
    assert marked.tolist() == [False, False, True, False]
    assert select_top(scores, batch, torch.tensor([4])).all()
    none = torch.zeros(0, dtype=F64)
    assert select_top(none, none.long(), torch.tensor([3, 1])).shape == (0,)
    scores = torch.tensor([0.1, 0.2])
    assert not select_top(scores, torch.zeros(2, dtype=torch.int64), torch.tensor([0])).any()
    assert dominant_matching(none.long().reshape(0, 2), none, 3).shape == (0,)


@pytest.mark.parametrize("edges", tier([1_000, 100_000], [1_000, 100_000, 1_500_000]))
def test_a_mesh_of_any_size_is_pooled_close_to_its_quota(edges):
    # Attention of a closed mesh crowds around one third; ties must not chain through it.
    random = np.random.default_rng(edges)
    scores = torch.as_tensor(random.normal(1 / 3, 0.02, size=edges))
    quota = edges // 5
    batch = torch.zeros(edges, dtype=torch.int64)
    marked = int(select_top(scores, batch, torch.tensor([quota])).sum())
    assert 0.99 * quota <= marked <= quota


def _one_by_one(edges, scores):
    """The definition: while an edge outranks all its free neighbors, accept it."""
    alive, accepted = set(range(len(edges))), set()
    while True:
        near = {e: [f for f in alive if f != e and set(edges[e]) & set(edges[f])] for e in alive}
        found = [e for e in alive if all(scores[e] > scores[f] for f in near[e])]
        found = [e for e in found if scores[e] == scores[e]]  # no NaN
        if not found:
            return [e in accepted for e in range(len(edges))]
        accepted.add(found[0])
        alive -= {found[0], *near[found[0]]}


LEVELS = st.sampled_from([-torch.inf, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0, torch.inf, torch.nan])
EDGES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), LEVELS).filter(lambda row: row[0] != row[1]),
    max_size=16,
)


@given(EDGES)
def test_matching_agrees_with_its_definition(rows):
    edges, scores = [row[:2] for row in rows], [row[2] for row in rows]
    undirected = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    got = dominant_matching(undirected, torch.tensor(scores, dtype=F64), 9)
    assert got.tolist() == _one_by_one(edges, scores)


@pytest.mark.parametrize("falling", [True, False])
def test_matching_takes_every_second_edge_of_a_monotone_path(falling):
    (nodes,) = tier([20_000], [100_000])
    path = torch.stack((torch.arange(nodes - 1), torch.arange(1, nodes)), dim=1)
    scores = torch.arange(nodes - 1.0)
    got = dominant_matching(path, -scores if falling else scores, nodes)
    every_second = torch.arange(nodes - 1) % 2 == 0
    assert torch.equal(got, every_second if falling else every_second.flip(0))


@given(st.lists(st.floats(width=64) | st.sampled_from([0.0, -0.0, torch.nan]), max_size=30))
def test_integers_are_sorted_as_their_floats_are(values):
    scores = torch.tensor(values, dtype=F64)
    expected = torch.argsort(scores, descending=True, stable=True)
    assert torch.equal(edge_selection._descending(scores), expected)


def _random_marks(shape, seed, levels):
    graph = graph_of(shape)
    random = np.random.default_rng(seed)
    count = len(graph.undirected)
    marked = torch.as_tensor(random.random(count) < 0.6)
    scores = torch.as_tensor(random.integers(0, levels, size=count) / levels)
    return graph.undirected, marked, scores, graph.num_primal


def _clusters(undirected, marked, nodes):
    label = components(undirected[marked], nodes)
    sizes = np.bincount(label)
    around = [set() for _ in sizes]
    for a, b in undirected.tolist():
        if label[a] != label[b]:
            around[label[a]].add(label[b])
            around[label[b]].add(label[a])
    return sizes, np.array([len(others) for others in around])


@given(shapes.meshes(), shapes.seeds, st.integers(1, 7), st.sampled_from([3, 1000]))
def test_no_cluster_exceeds_a_cap(shape, seed, cap, levels):
    undirected, marked, scores, nodes = _random_marks(shape, seed, levels)
    for caps in ({"max_cluster_size": cap}, {"max_degree": max(cap, 3)}):
        kept = limit_clusters(undirected, marked, scores, nodes, **caps)
        sizes, degrees = _clusters(undirected, kept, nodes)
        assert sizes.max() <= caps.get("max_cluster_size", nodes)
        assert (degrees[sizes > 1] <= caps.get("max_degree", nodes)).all()
        assert not (kept & ~marked).any()


@given(shapes.meshes(), shapes.seeds, st.sampled_from([3, 1000]))
def test_marks_within_the_caps_are_left_alone(shape, seed, levels):
    undirected, marked, scores, nodes = _random_marks(shape, seed, levels)
    caps = [int(x.max()) for x in _clusters(undirected, marked, nodes)]
    given = (undirected, marked, scores, nodes)
    kept = limit_clusters(*given, max_cluster_size=caps[0], max_degree=caps[1])
    assert torch.equal(kept, marked)
    assert torch.equal(limit_clusters(*given), marked)


def test_the_weaker_contractions_of_a_chain_are_undone_and_hubs_left_alone():
    chain = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4]])
    scores = torch.tensor([0.9, 0.1, 0.2, 0.8], dtype=F64)
    kept = limit_clusters(chain, torch.ones(4, dtype=torch.bool), scores, 5, max_cluster_size=2)
    assert kept.tolist() == [True, False, False, True]
    star = torch.tensor([[0, leaf] for leaf in range(1, 9)] + [[9, 10], [8, 9]])
    marked = torch.zeros(10, dtype=torch.bool)
    marked[8] = True
    kept = limit_clusters(star, marked, torch.ones(10, dtype=F64), 11, max_degree=4)
    assert torch.equal(kept, marked)
