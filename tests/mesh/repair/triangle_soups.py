"""Triangles on which the steps of the repair are tested."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

OCTAHEDRON_POINTS = np.concatenate([np.eye(3), -np.eye(3)])
OCTAHEDRON = np.array(
    [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]]
)


@st.composite
def soups(draw: st.DrawFn) -> NDArray[np.int64]:
    """Random triangles on few vertices: mostly non-manifold, three different corners each."""
    num_vertices = draw(st.integers(3, 9))
    corners = st.permutations(range(num_vertices)).map(lambda order: order[:3])
    return np.array(draw(st.lists(corners, min_size=1, max_size=30)), np.int64)


def halfedges(face: NDArray[np.int64]) -> list[tuple[int, int]]:
    a, b, c = (int(index) for index in face)
    return [(a, b), (b, c), (c, a)]


def moebius_strip(length: int) -> NDArray[np.int64]:
    strip = np.arange(length)
    faces = np.stack([strip, strip + 1, strip + 2], axis=1) % length
    faces[1::2] = faces[1::2, ::-1]
    return faces
