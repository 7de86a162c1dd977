"""Edge collapses on arrays; what they do to meshes is tested with ``simplify``."""

import numpy as np
import pytest

from equigeo.mesh.remesh.collapse_edges import collapse_edges
from tests.mesh import shapes


def _arrays(mesh):
    return mesh.vertices.numpy(), mesh.faces.numpy()


def test_fixed_vertices_stay_with_all_of_their_faces():
    vertices, faces = _arrays(shapes.icosphere(2))
    fixed = vertices[:, 2] > 0.5
    assert fixed.any()
    positions, simple, origin = collapse_edges(vertices, faces, 180, fixed=fixed)
    assert len(simple) == 180
    stays = fixed[faces].sum(axis=1) >= 2
    assert np.isin(np.flatnonzero(stays), origin).all()
    kept = {tuple(p) for p in positions}
    assert all(tuple(p) in kept for p in vertices[fixed])


def test_a_smaller_weight_of_edges_gives_more_faces_to_relief():
    ticks = np.linspace(-1, 1, 25)
    x, y = (a.reshape(-1) for a in np.meshgrid(ticks, ticks))
    is_bump = np.hypot(x, y) < 0.4
    vertices = np.stack([x, y, 0.2 * is_bump], axis=1)
    first = (np.arange(24)[:, None] * 25 + np.arange(24)).reshape(-1, 1)
    faces = np.concatenate([first + np.array([0, 1, 26]), first + np.array([0, 26, 25])])
    shares = []
    for weight in (1.0, 1e-2, 1e-4):
        positions, simple, _ = collapse_edges(vertices, faces, 200, edge_weight=weight)
        heights = positions[:, 2][simple].max(axis=1)
        shares.append((heights > 0.02).mean())
    assert shares[0] < shares[1] < shares[2]


def test_where_everything_is_fixed_nothing_happens():
    vertices, faces = _arrays(shapes.icosphere(1))
    fixed = np.ones(len(vertices), bool)
    positions, simple, _ = collapse_edges(vertices, faces, 4, fixed=fixed)
    np.testing.assert_array_equal(positions[simple], vertices[faces])


@pytest.mark.parametrize(
    "shape", [shapes.tetrahedron(), shapes.triangle(), shapes.pillow()], ids=str
)
def test_the_smallest_surfaces_end_the_search(shape):
    _, simple, origin = collapse_edges(*_arrays(shape), 1, np.random.default_rng(0))
    np.testing.assert_array_equal(simple, shape.faces)
    np.testing.assert_array_equal(origin, np.arange(len(simple)))


def test_no_face_folds_and_none_becomes_a_sliver():
    vertices, faces = _arrays(shapes.icosphere(3))
    positions, simple, _ = collapse_edges(vertices, faces, 200, np.random.default_rng(0))
    corners = positions[simple]
    sides = np.roll(corners, -1, axis=1) - corners
    normals = np.cross(sides[:, 0], sides[:, 1])
    quality = 2 * 3**0.5 * np.linalg.norm(normals, axis=1) / (sides**2).sum(axis=(1, 2))
    assert quality.min() > 0.1
    assert (np.einsum("fi,fi->f", normals, corners.mean(axis=1)) > 0).all()


def test_needles_are_simplified_though_each_is_a_sliver():
    n = 40
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    vertices = np.concatenate([ring, ring + np.array([0, 0, 200.0])])
    i, j = np.arange(n), (np.arange(n) + 1) % n
    faces = np.concatenate([np.stack([i, j, j + n], 1), np.stack([i, j + n, i + n], 1)])
    _, simple, _ = collapse_edges(vertices, faces, 60)
    assert len(simple) == 60
