"""Positions, given as attributes, must come out where the positions themselves do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh
from equigeo.mesh.repair import repair_mesh
from equigeo.mesh.repair.repair import NonmanifoldPolicy, follow_attributes
from tests.mesh.repair.test_repair_mesh import SQUARE, file_mesh

NAN = float("nan")


@st.composite
def polygon_soups(draw: st.DrawFn) -> FileMesh:
    """Polygons, wound in any way, on few points, of which some are there twice or not finite."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.integers(0, 3, (draw(st.integers(4, 14)), 3)).astype(float)
    if draw(st.booleans()):
        points[rng.integers(len(points))] = NAN
    sizes = rng.integers(2, 6, draw(st.integers(1, 14)))
    corners = rng.integers(0, len(points), sizes.sum())
    vertices = {"place": points, "number": np.arange(len(points))}
    at_corners = {"corner": points[corners], "owner": corners}
    attributes = FileAttributes(vertices, {"number": np.arange(len(sizes))}, at_corners)
    return FileMesh(points, corners, sizes, attributes=attributes)


@given(polygon_soups(), st.sampled_from(["cut", "drop", "clique"]))
def test_attributes_are_where_their_owners_are(file: FileMesh, policy: NonmanifoldPolicy) -> None:
    try:
        repaired = repair_mesh(file, nonmanifold=policy)
    except MeshError:
        return
    found, corners = repaired.attributes, repaired.vertices[repaired.faces]
    np.testing.assert_array_equal(found.vertices["place"], repaired.vertices)
    np.testing.assert_array_equal(found.vertices["number"], repaired.kept_vertices)
    np.testing.assert_array_equal(found.faces["number"], repaired.polygon)
    np.testing.assert_array_equal(found.corners["corner"], corners)
    assert "place" not in found.corners  # what is merged here lies at exactly the same position
    # Each corner belongs to a vertex of its own polygon, which became the vertex that it is at.
    owner = found.corners["owner"]
    np.testing.assert_array_equal(file.vertices[owner], corners)
    merged = (owner != repaired.kept_vertices[repaired.faces]).any()
    assert ("number" in found.corners) == merged
    if merged:
        np.testing.assert_array_equal(found.corners["number"], owner)


def test_vertices_that_differ_keep_their_values_at_corners_unless_the_file_has_some() -> None:
    values = FileAttributes({"uv": np.arange(6.0), "same": np.array([1.0, 2, 3, 4, 1, 3])})
    vertices = [*SQUARE, SQUARE[0], SQUARE[2]]
    repaired = repair_mesh(file_mesh(vertices, [[0, 1, 2], [4, 5, 3]], attributes=values))
    assert repaired.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert repaired.attributes.vertices["uv"].tolist() == [0, 1, 2, 3]  # of the first
    assert repaired.attributes.corners["uv"].tolist() == [[0, 1, 2], [4, 5, 3]]
    assert list(repaired.attributes.corners) == ["uv"]
    values = FileAttributes({"uv": np.arange(6.0)}, {}, {"uv": 10 + np.arange(6.0)})
    repaired = repair_mesh(file_mesh(vertices, [[0, 1, 2], [4, 5, 3]], attributes=values))
    assert repaired.attributes.corners["uv"].tolist() == [[10, 11, 12], [13, 14, 15]]


def test_without_attributes_nothing_is_done() -> None:
    nothing = FileAttributes(warnings=("left out",))
    file = file_mesh(SQUARE, [[0, 1, 2], [0, 2, 3]], attributes=nothing)
    none = np.zeros(0, np.int64)
    assert follow_attributes(file, none, none > 0, none.reshape(0, 3), none) is nothing
    assert repair_mesh(file).warnings == ("left out",)
