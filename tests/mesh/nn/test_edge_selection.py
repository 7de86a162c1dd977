import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.nn import contraction as edge_selection
from equigeo.mesh.nn.contraction import dominant_matching, select_top
from equigeo.mesh.nn.pooling import limit_clusters
from tests.mesh import shapes
from tests.mesh.definitions import F64, components, graph_of
from tests.tier import tier


def _random_batch(seed, meshes=4):
    """Distinct scores in random order, the mesh of each, and a quota per mesh."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 12, size=meshes)
    total = int(counts.sum())
    scores = torch.as_tensor(random.permutation(total) / max(total, 1), dtype=F64)
    batch = torch.arange(meshes).repeat_interleave(torch.as_tensor(counts))
    return scores, batch, torch.as_tensor(random.integers(0, 14, size=meshes))


@given(shapes.seeds)
def test_distinct_scores_give_the_sorted_top_of_each_mesh(seed):
    scores, batch, quota = _random_batch(seed)
    expected = torch.zeros(len(scores), dtype=torch.bool)
    for mesh, k in enumerate(quota.tolist()):
        members = torch.nonzero(batch == mesh).flatten()
        best = members[torch.argsort(scores[members], descending=True)[:k]]
        expected[best] = True
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
    """The definition: while an edge outranks all its free neighbours, accept it."""
    alive, accepted = set(range(len(edges))), set()
    while True:
        near = {e: [f for f in alive if f != e and set(edges[e]) & set(edges[f])] for e in alive}
        found = [
            e
            for e in alive
            if scores[e] == scores[e] and all(scores[e] > scores[f] for f in near[e])
        ]
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
    label = components([tuple(row) for row in undirected[marked].tolist()], nodes)
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
    sizes, degrees = _clusters(undirected, marked, nodes)
    kept = limit_clusters(
        undirected,
        marked,
        scores,
        nodes,
        max_cluster_size=int(sizes.max()),
        max_degree=int(degrees.max()),
    )
    assert torch.equal(kept, marked)
    assert torch.equal(limit_clusters(undirected, marked, scores, nodes), marked)


@given(shapes.meshes(), shapes.seeds, st.sampled_from([2, 5, 1000]))
def test_neither_the_order_of_edges_nor_the_numbers_of_nodes_matter(shape, seed, levels):
    undirected, marked, scores, nodes = _random_marks(shape, seed, levels)
    caps = {"max_cluster_size": 4, "max_degree": 5}
    kept = limit_clusters(undirected, marked, scores, nodes, **caps)
    order = shapes.permutation(len(undirected), seed)
    number = shapes.permutation(nodes, seed + 1)
    renumbered = number[undirected].sort(dim=1).values[order]
    again = limit_clusters(renumbered, marked[order], scores[order], nodes, **caps)
    assert torch.equal(again, kept[order])


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
