"""Contractions without common faces: the sequential greedy rule, without its order."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.mesh.pooling.matching import dominant_matching
from tests.mesh import shapes
from tests.mesh.definitions import graph_of, greedy_matching


def _scores(size, seed, levels=None):
    random = np.random.default_rng(seed)
    values = random.permutation(size) if levels is None else random.integers(0, levels, size)
    return torch.as_tensor(values / max(size, 1))


@settings(max_examples=60, deadline=None)
@given(shapes.meshes(), shapes.seeds)
def test_distinct_scores_give_the_sequential_greedy_matching(shape, seed):
    graph = graph_of(shape)
    scores = _scores(len(graph.undirected), seed)
    pairs = [tuple(row) for row in graph.undirected.tolist()]
    got = dominant_matching(graph.undirected, scores, graph.num_primal)
    assert got.tolist() == greedy_matching(pairs, scores.tolist())


@settings(max_examples=40, deadline=None)
@given(shapes.meshes(), shapes.seeds, st.integers(1, 5))
def test_with_ties_no_face_is_used_twice_and_no_numbering_decides(shape, seed, levels):
    graph = graph_of(shape)
    scores = _scores(len(graph.undirected), seed, levels)
    got = dominant_matching(graph.undirected, scores, graph.num_primal)
    used = graph.undirected[got].flatten()
    assert len(used.unique()) == len(used)
    order = shapes.permutation(len(scores), seed)
    number = shapes.permutation(graph.num_primal, seed + 1)
    renumbered = number[graph.undirected].sort(dim=1).values[order]
    again = dominant_matching(renumbered, scores[order], graph.num_primal)
    assert torch.equal(again, got[order])


def test_equal_neighbours_block_each_other_and_equal_strangers_do_not():
    path = torch.tensor([[0, 1], [1, 2], [3, 4]])
    got = dominant_matching(path, torch.tensor([0.5, 0.5, 0.5]), 5)
    assert got.tolist() == [False, False, True]


def test_no_edges_give_no_matching():
    none = torch.zeros(0, 2, dtype=torch.int64)
    assert dominant_matching(none, torch.zeros(0), 3).shape == (0,)


def test_a_long_descending_path_terminates_with_every_second_edge():
    nodes = 400
    path = torch.stack((torch.arange(nodes - 1), torch.arange(1, nodes)), dim=1)
    got = dominant_matching(path, -torch.arange(nodes - 1.0), nodes)
    assert got.tolist() == [u % 2 == 0 for u in range(nodes - 1)]
