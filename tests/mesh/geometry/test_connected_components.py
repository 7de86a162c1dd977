"""Connected components against sequential union-find, the rounds they take, and ranges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as scipy_components
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.geometry.connected_components import connected_components
from equigeo.mesh.geometry.half_edges import HalfEdges
from tests.mesh import shapes
from tests.mesh.definitions import components
from tests.tier import tier


class _Rounds(TorchDispatchMode):
    """Count the passes over the edges: each hooks roots by one scatter."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "scatter" in str(func)
        return func(*args, **(kwargs or {}))


def _tensor(pairs):
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


@given(st.data())
def test_labels_equal_those_of_sequential_union_find(data):
    size = data.draw(st.integers(1, 60))
    node = st.integers(0, size - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=80))
    assert connected_components(_tensor(pairs), size).tolist() == components(pairs, size)


@given(shapes.seeds, st.sampled_from([0.2, 0.5, 1.0, 2.0]))
def test_the_partition_equals_that_of_scipy_on_large_random_graphs(seed, density):
    random = np.random.default_rng(seed)
    size = 3000
    pairs = random.integers(size, size=(int(density * size), 2))
    matrix = coo_array((np.ones(len(pairs)), pairs.T), shape=(size, size))
    _, expected = scipy_components(matrix, directed=False)
    got = connected_components(torch.as_tensor(pairs), size).numpy()
    first = np.unique(expected, return_index=True)[1]  # smallest member of each component
    assert np.array_equal(got, np.argsort(np.argsort(first))[expected])


def test_no_edges_leave_every_node_alone():
    assert connected_components(_tensor([]), 3).tolist() == [0, 1, 2]
    assert connected_components(_tensor([]), 0).tolist() == []


def test_a_path_in_random_numbering_takes_at_most_sixteen_rounds():
    (size,) = tier([30_000], [100_000])
    place = shapes.permutation(size, 0)
    path = torch.stack((place[:-1], place[1:]), dim=1)
    with _Rounds() as rounds:
        label = connected_components(path, size)
    assert int(label.max()) == 0
    assert 0 < rounds.count <= 16


@pytest.mark.parametrize("seed", tier(range(1), range(3)))
def test_a_mesh_with_a_fifth_of_its_edges_contracted_takes_at_most_eight_rounds(seed):
    shape = shapes.icosphere(5)
    pairs = HalfEdges.from_faces(shape.faces).pairs() // 3
    chosen = pairs[shapes.permutation(len(pairs), seed)[: len(pairs) // 5]]
    with _Rounds() as rounds:
        connected_components(chosen, shape.num_faces)
    assert 0 < rounds.count <= 8


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=20))
def test_ranges_follow_one_another(ranges):
    first, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [number for begin, size in ranges for number in range(begin, begin + size)]
    assert concatenate_ranges(first, sizes).tolist() == expected
