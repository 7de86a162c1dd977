import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets import edges_in_order
from tests.datasets.segmentation.segmentation_files import scan_edges

_INDICES = st.integers(0, 9)
_FACES = st.lists(st.tuples(_INDICES, _INDICES, _INDICES), max_size=30)


def test_two_faces_and_two_more_have_the_edges_of_the_specification():
    faces = torch.tensor([[0, 1, 2], [0, 3, 1]])
    expected = [[0, 1], [1, 2], [0, 2], [0, 3], [1, 3]]
    assert edges_in_order(faces).vertices.tolist() == expected
    more = torch.cat([faces, torch.tensor([[0, 2, 3], [1, 3, 2]])])
    assert edges_in_order(more).vertices.tolist() == [*expected, [2, 3]]


@given(_FACES)
def test_any_faces_are_numbered_as_by_a_scan(faces):
    """Also degenerate faces, duplicates and edges of many faces."""
    edges = edges_in_order(np.array(faces, dtype=np.int32).reshape(-1, 3))
    numbers = scan_edges(faces)
    assert [tuple(row) for row in edges.vertices.tolist()] == list(numbers)
    expected = [[numbers[tuple(sorted((f[k], f[(k + 1) % 3])))] for k in range(3)] for f in faces]
    assert edges.of_faces.tolist() == expected


def test_indices_beyond_the_root_of_the_largest_integer_are_no_obstacle():
    far = 2**62
    edges = edges_in_order(torch.tensor([[far, 0, far - 1]]))
    assert edges.vertices.tolist() == [[0, far], [0, far - 1], [far - 1, far]]


@pytest.mark.parametrize(
    "faces", [torch.zeros(3, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)]
)
def test_other_shapes_are_refused(faces):
    with pytest.raises(ValueError, match=r"faces must be integer \(faces, 3\)"):
        edges_in_order(faces)


def test_other_numbers_are_refused():
    with pytest.raises(ValueError, match="integer"):
        edges_in_order(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="got -1"):
        edges_in_order(torch.tensor([[0, 1, -1]]))
    with pytest.raises(TypeError, match="got list"):
        edges_in_order([[0, 1, 2]])
