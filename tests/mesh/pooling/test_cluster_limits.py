"""Caps on clusters: they hold, they only take back, and no numbering decides."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.pooling.cluster_limits import limit_clusters
from tests.mesh import shapes
from tests.mesh.definitions import F64, components, graph_of


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


@given(shapes.meshes(), shapes.seeds, st.integers(1, 6), st.sampled_from([3, 1000]))
def test_no_cluster_exceeds_the_size_cap(shape, seed, cap, levels):
    undirected, marked, scores, nodes = _random_marks(shape, seed, levels)
    kept = limit_clusters(undirected, marked, scores, nodes, max_cluster_size=cap)
    sizes, _ = _clusters(undirected, kept, nodes)
    assert sizes.max() <= cap
    assert not (kept & ~marked).any()


@given(shapes.meshes(), shapes.seeds, st.integers(3, 7), st.sampled_from([3, 1000]))
def test_no_merged_cluster_exceeds_the_degree_cap(shape, seed, cap, levels):
    undirected, marked, scores, nodes = _random_marks(shape, seed, levels)
    kept = limit_clusters(undirected, marked, scores, nodes, max_degree=cap)
    sizes, degrees = _clusters(undirected, kept, nodes)
    assert (degrees[sizes > 1] <= cap).all()
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


def test_the_weaker_contractions_of_a_chain_are_undone():
    chain = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4]])
    scores = torch.tensor([0.9, 0.1, 0.2, 0.8], dtype=F64)
    kept = limit_clusters(chain, torch.ones(4, dtype=torch.bool), scores, 5, max_cluster_size=2)
    assert kept.tolist() == [True, False, False, True]


def test_a_node_that_is_a_hub_by_itself_is_left_alone():
    star = torch.tensor([[0, leaf] for leaf in range(1, 9)] + [[9, 10], [8, 9]])
    marked = torch.zeros(10, dtype=torch.bool)
    marked[8] = True
    kept = limit_clusters(star, marked, torch.ones(10, dtype=F64), 11, max_degree=4)
    assert torch.equal(kept, marked)
