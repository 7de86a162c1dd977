from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from equigeo.mesh import MeshError
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.repair import MeshTopology, repair_mesh
from equigeo.mesh.repair.repair_mesh import duplicate_faces, scale_to_unit_diagonal
from tests.mesh.repair.triangle_soups import soups

SQUARE = [[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
NAN, INF = float("nan"), float("inf")


def file_mesh(vertices, faces, **options) -> FileMesh:
    corners = np.array([index for face in faces for index in face], np.int64)
    sizes = np.array([len(face) for face in faces], np.int64)
    return FileMesh(np.array(vertices, np.float64), corners, sizes, **options)


# One defect each: vertices, faces, the count it belongs to, the face or vertex that strict names.
DEFECTS = {
    "short": (SQUARE, [[0, 1], [0, 1, 2], [0, 2, 3]], "short_faces", "face 0"),
    "polygon": (SQUARE, [[0, 1, 2, 3]], "polygons", "face 0"),
    "nan": (
        [*SQUARE, [NAN, 0, 0]],
        [[0, 1, 2], [0, 2, 3], [0, 3, 4]],
        "nonfinite_faces",
        "face 2",
    ),
    "infinite": (
        [*SQUARE, [0, -INF, 0]],
        [[0, 3, 4], [0, 1, 2], [0, 2, 3]],
        "nonfinite_faces",
        "face 0",
    ),
    "seam": ([*SQUARE, SQUARE[0]], [[0, 1, 2], [4, 2, 3]], "merged_vertices", "vertex 4"),
    "repeated": (SQUARE, [[0, 1, 2], [0, 2, 2], [0, 2, 3]], "repeated_index_faces", "face 1"),
    "flat": (
        [*SQUARE, [0.5, 0, 0]],
        [[0, 1, 2], [0, 2, 3], [0, 4, 1]],
        "zero_area_faces",
        "face 2",
    ),
    "sliver": (
        [*SQUARE, [0.5, -3e-12, 0]],
        [[0, 1, 2], [0, 2, 3], [0, 4, 1]],
        "zero_area_faces",
        "face 2",
    ),
    "duplicate": (SQUARE, [[0, 1, 2], [0, 2, 3], [2, 0, 1]], "duplicate_faces", "face 2"),
    "reversed duplicate": (SQUARE, [[0, 1, 2], [0, 2, 3], [2, 1, 0]], "duplicate_faces", "face 2"),
    "winding": (SQUARE, [[0, 1, 2], [0, 3, 2]], "reoriented_faces", "face 1"),
    "third face": (
        [*SQUARE, [0, 0, 1]],
        [[0, 1, 2], [0, 2, 3], [0, 2, 4]],
        "nonmanifold_faces",
        "face 2",
    ),
    "unused vertex": (
        [[5.0, 5, 5], *SQUARE],
        [[1, 2, 3], [1, 3, 4]],
        "unreferenced_vertices",
        "vertex 0",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_repaired_and_counted(name: str) -> None:
    vertices, faces, action, _ = DEFECTS[name]
    repaired = repair_mesh(file_mesh(vertices, faces))
    assert getattr(repaired.counts, action) == 1
    positions = repaired.vertices[repaired.faces]
    normals = np.cross(positions[:, 1] - positions[:, 0], positions[:, 2] - positions[:, 0])
    assert np.abs(normals[:, 2]).tolist() == [1, 1]  # the square is left
    assert abs(normals.sum(axis=0)).max() == 2
    assert len(repaired.vertices) == 4


@pytest.mark.parametrize("name", DEFECTS)
def test_strict_mode_names_the_place_of_each_defect(name: str) -> None:
    vertices, faces, _, place = DEFECTS[name]
    with pytest.raises(MeshError, match=rf"^{place}\b.*strict=False"):
        repair_mesh(file_mesh(vertices, faces), strict=True)


def test_strict_mode_names_lines_where_the_format_has_them() -> None:
    lines = {"face_lines": np.array([7, 9]), "vertex_lines": np.arange(4)}
    with pytest.raises(MeshError, match=r"^line 9 \(face 1\) repeats a vertex"):
        repair_mesh(file_mesh(SQUARE, [[0, 1, 2], [0, 2, 2]], **lines), strict=True)


def test_strict_mode_accepts_what_needs_no_repair() -> None:
    repaired = repair_mesh(file_mesh(SQUARE, [[0, 1, 2], [0, 2, 3]]), strict=True)
    assert repaired.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert repaired.warnings == ()


def test_maps_follow_faces_and_vertices_through_every_repair() -> None:
    vertices = [[9.0, 9, 9], *SQUARE, [NAN, 0, 0], *SQUARE]
    faces = [[1, 5, 2], [1, 1, 2], [1, 2, 3, 4], [6, 7], [6, 8, 9]]
    repaired = repair_mesh(file_mesh(vertices, faces))
    # The fan of face 2 holds the triangle of face 4 already.
    assert repaired.polygon.tolist() == [2, 2]
    assert repaired.triangle.tolist() == [2, 3]
    assert repaired.vertex_map.tolist() == [-1, 0, 1, 2, 3, -1, 0, -1, 2, 3]


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (SQUARE, [], "has no faces, only 4 vertices"),
        (SQUARE, [[0, 1]], "1 short faces"),
        (SQUARE, [[0, 1, 1]], "1 repeated index faces"),
        ([[0, 0, 0]] * 3, [[0, 1, 2]], "1 repeated index faces"),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]], "1 zero area faces"),
        ([[NAN, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]], "1 nonfinite faces"),
    ],
)
def test_nothing_left_is_an_error_with_its_reason(vertices, faces, message) -> None:
    with pytest.raises(MeshError, match=message):
        repair_mesh(file_mesh(vertices, faces))


def test_joined_components_are_a_warning() -> None:
    repaired = repair_mesh(file_mesh([*SQUARE, *SQUARE], [[0, 1, 2], [4, 6, 7]]))
    assert "merging vertices joined 2 components into 1" in repaired.warnings


@pytest.mark.parametrize("scale", [1e-290, 1e-6, 1e6, 1e290])
def test_repairs_do_not_depend_on_the_unit(scale: float) -> None:
    vertices, faces, _, _ = DEFECTS["sliver"]
    repaired = repair_mesh(file_mesh(np.array(vertices) * scale, faces))
    assert repaired.counts == repair_mesh(file_mesh(vertices, faces)).counts


@st.composite
def broken_meshes(draw: st.DrawFn) -> FileMesh:
    """Anything: few places, so that coincidences of every kind are common."""
    coordinate = st.sampled_from([0.0, 1.0, 2.0, 1e-12, 0.5, NAN, INF])
    position = st.tuples(coordinate, coordinate, coordinate)
    vertices = draw(st.lists(position, min_size=1, max_size=12))
    face = st.lists(st.integers(0, len(vertices) - 1), max_size=5)
    return file_mesh(vertices, draw(st.lists(face, max_size=20)))


@settings(max_examples=300, deadline=None)
@given(broken_meshes())
def test_what_is_left_of_any_mesh_is_sound_and_accounted_for(file: FileMesh) -> None:
    try:
        repaired = repair_mesh(file)
    except MeshError as error:
        assert re.match("has no", str(error))  # noqa: PT017
        return
    assert np.isfinite(repaired.vertices).all()
    assert (np.bincount(repaired.faces.ravel(), minlength=len(repaired.vertices)) > 0).all()
    triangles = int((file.sizes - 2).clip(0).sum())
    assert len(repaired.faces) == triangles - repaired.counts.removed_faces
    assert (np.diff(repaired.triangle) > 0).all()
    topology = MeshTopology.from_faces(repaired.faces)
    assert topology == repaired.topology
    assert topology.oriented
    again = repair_mesh(
        FileMesh(repaired.vertices, repaired.faces.ravel(), np.full(len(repaired.faces), 3))
    )
    assert again.counts.removed_faces == 0


@settings(max_examples=100, deadline=None)
@given(broken_meshes())
def test_strict_mode_raises_exactly_where_something_would_be_repaired(file: FileMesh) -> None:
    try:
        counts = repair_mesh(file).counts
    except MeshError:
        counts = None
    if counts is not None and not any(vars(counts).values()):
        assert len(repair_mesh(file, strict=True).faces) == file.num_faces
    else:
        with pytest.raises(MeshError):
            repair_mesh(file, strict=True)


@settings(max_examples=200, deadline=None)
@given(soups())
def test_duplicates_are_all_but_the_first_of_a_vertex_set(faces: NDArray[np.int64]) -> None:
    seen: set[frozenset[int]] = set()
    expected = []
    for face in faces.tolist():
        expected.append(frozenset(face) in seen)
        seen.add(frozenset(face))
    assert duplicate_faces(faces).tolist() == expected


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_unit_points_do_not_depend_on_the_unit(scale: float) -> None:
    points = np.random.default_rng(0).random((20, 3))
    moved = scale_to_unit_diagonal(points * scale, np.arange(20))
    expected = scale_to_unit_diagonal(points, np.arange(20))
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-14)


def test_unit_points_ignore_vertices_out_of_use() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 1e308, np.inf]])
    moved = scale_to_unit_diagonal(points, np.array([[0, 1, 2]]))
    assert np.linalg.norm(np.ptp(moved[:3], axis=0)) == pytest.approx(1)
