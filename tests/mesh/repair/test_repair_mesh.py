import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from equigeo.mesh import MeshError, TriangleMesh
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.geometry.orient import Surface
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh
from equigeo.mesh.repair import topology
from equigeo.mesh.repair.repair import (
    NonmanifoldPolicy,
    duplicate_faces,
    follow_attributes,
    scale_to_unit_diagonal,
)
from equigeo.mesh.repair.topology import MeshTopology
from equigeo.testing import tolerance
from tests.mesh import shapes
from tests.mesh.repair.test_triangle_soups import soups
from tests.mesh.shapes import cube, icosphere, lumpy, met_again, repair, repaired_again, torus
from tests.wrong_inputs import refused

fails = partial(refused, error=MeshError)

SQUARE = [[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
NAN, INF = float("nan"), float("inf")
SHARE = tolerance(torch.float64, 4)["rtol"]  # of the areas of up to four faces


def file_mesh(vertices, faces, **options) -> FileMesh:
    corners = np.array([index for face in faces for index in face], np.int64)
    sizes = np.array([len(face) for face in faces], np.int64)
    return FileMesh(np.array(vertices, np.float64), corners, sizes, **options)


# One defect each: vertices, faces, the count it belongs to, the face or vertex that strict names.
HALVES = [[0, 1, 2], [0, 2, 3]]
DEFECTS = {
    "short": (SQUARE, [[0, 1], *HALVES], "short_faces", "face 0"),
    "polygon": (SQUARE, [[0, 1, 2, 3]], "polygons", "face 0"),
    "nan": ([*SQUARE, [NAN, 0, 0]], [*HALVES, [0, 3, 4]], "nonfinite_faces", "face 2"),
    "infinite": ([*SQUARE, [0, -INF, 0]], [[0, 3, 4], *HALVES], "nonfinite_faces", "face 0"),
    "seam": ([*SQUARE, SQUARE[0]], [[0, 1, 2], [4, 2, 3]], "merged_vertices", "vertex 4"),
    "repeated": (SQUARE, [[0, 1, 2], [0, 2, 2], [0, 2, 3]], "repeated_index_faces", "face 1"),
    "flat": ([*SQUARE, [0.5, 0, 0]], [*HALVES, [0, 4, 1]], "zero_area_faces", "face 2"),
    "sliver": ([*SQUARE, [0.5, -3e-12, 0]], [*HALVES, [0, 4, 1]], "zero_area_faces", "face 2"),
    "duplicate": (SQUARE, [*HALVES, [2, 0, 1]], "duplicate_faces", "face 2"),
    "reversed duplicate": (SQUARE, [*HALVES, [2, 1, 0]], "duplicate_faces", "face 2"),
    "winding": (SQUARE, [[0, 1, 2], [0, 3, 2]], "reoriented_faces", "face 1"),
    "third face": ([*SQUARE, [0, 0, 1]], [*HALVES, [0, 2, 4]], "nonmanifold_edges", "face 2"),
    "unused vertex": (
        [[5.0, 5, 5], *SQUARE], [[1, 2, 3], [1, 3, 4]], "unreferenced_vertices", "vertex 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_repaired_and_counted_and_raises_in_strict_mode(name: str) -> None:
    vertices, faces, action, place = DEFECTS[name]
    file = file_mesh(vertices, faces)
    repaired = repair(file)
    assert getattr(repaired.counts, action) == 1
    if name == "third face":  # no face is lost
        assert (len(repaired.faces), repaired.counts.split_vertices) == (3, 2)
        repaired = repair(file, nonmanifold="drop")
        assert repaired.counts.nonmanifold_faces == 1
    positions = repaired.vertices[repaired.faces]
    normals = np.cross(positions[:, 1] - positions[:, 0], positions[:, 2] - positions[:, 0])
    assert np.abs(normals[:, 2]).tolist() == [1, 1]  # the square is left
    assert abs(normals.sum(axis=0)).max() == 2
    assert len(repaired.vertices) == 4
    fails(rf"^{place}\b.*strict=False", repair, file, strict=True)


def test_strict_mode_names_lines_and_units_do_not_matter() -> None:
    lines = {"face_lines": np.array([7, 9]), "vertex_lines": np.arange(4)}
    file = file_mesh(SQUARE, [[0, 1, 2], [0, 2, 2]], **lines)
    message = r"^line 9 \(face 1\) repeats a vertex"
    fails(message, repair, file, strict=True)
    repaired = repair(file_mesh(SQUARE, HALVES), strict=True)
    assert repaired.faces.tolist() == HALVES
    assert repaired.warnings == ()
    vertices, faces, _, _ = DEFECTS["sliver"]
    for scale in (1e-290, 1e-6, 1e6, 1e290):
        repaired = repair(file_mesh(np.array(vertices) * scale, faces))
        assert repaired.counts == repair(file_mesh(vertices, faces)).counts


def test_maps_follow_every_repair_and_joined_components_are_a_warning() -> None:
    vertices = [[9.0, 9, 9], *SQUARE, [NAN, 0, 0], *SQUARE]
    faces = [[1, 5, 2], [1, 1, 2], [1, 2, 3, 4], [6, 7], [6, 8, 9]]
    repaired = repair(file_mesh(vertices, faces))
    # The fan of face 2 holds the triangle of face 4 already.
    assert repaired.kept_faces.tolist() == [2, 2]
    assert repaired.kept_triangles.tolist() == [2, 3]
    assert repaired.vertex_map.tolist() == [-1, 0, 1, 2, 3, -1, 0, -1, 2, 3]
    repaired = repair(file_mesh([*SQUARE, *SQUARE], [[0, 1, 2], [4, 6, 7]]))
    assert "merging vertices joined 2 components into 1" in repaired.warnings


def test_nothing_left_is_an_error_with_its_reason() -> None:
    for vertices, faces, message in (
        (SQUARE, [], "has no faces, only 4 vertices"),
        (SQUARE, [[0, 1]], "1 short faces"),
        (SQUARE, [[0, 1, 1]], "1 repeated index faces"),
        ([[0, 0, 0]] * 3, [[0, 1, 2]], "1 repeated index faces"),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]], "1 zero area faces"),
        ([[NAN, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]], "1 nonfinite faces"),
    ):
        fails(message, repair, file_mesh(vertices, faces))


# A box, of which files of many parts are made.
CUBE = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]


def two_boxes(shared: bool) -> FileMesh:
    """Boxes with a common edge, of the same two vertices or of two others at the same places."""
    points = np.concatenate([CUBE, CUBE + np.array([1, 1, 0])])
    merge = {8: 6, 9: 7} if shared else {}
    return file_mesh(points, QUADS + [[merge.get(v + 8, v + 8) for v in quad] for quad in QUADS])


@pytest.mark.parametrize("shared", [True, False])
def test_boxes_that_share_an_edge_lose_nothing(shared: bool) -> None:
    repaired = repair(two_boxes(shared))
    assert len(repaired.faces) == 24
    assert repaired.counts.nonmanifold_edges == 1
    assert repaired.counts.split_vertices == 2
    topology = repaired.topology
    assert (topology.closed, topology.manifold, topology.components) == (True, True, 2)
    assert topology.euler == 4
    assert repaired.pairs is None
    assert (repaired.vertices == two_boxes(shared).vertices[repaired.kept_vertices]).all()
    dropped = repair(two_boxes(shared), nonmanifold="drop")
    assert len(dropped.faces) <= 24


def test_walls_of_a_cavity_are_wound_inward() -> None:
    inner = [[v + 8 for v in quad] for quad in QUADS]
    points = np.concatenate([3 * CUBE - 1, CUBE])
    for second in (inner, [quad[::-1] for quad in inner]):
        repaired = repair(file_mesh(points, QUADS + second))
        volume = np.linalg.det(repaired.vertices[repaired.faces]) / 6
        assert volume[:12].sum() == pytest.approx(27)
        assert volume[12:].sum() == pytest.approx(-1)


def soup_of(shape: TriangleMesh, noise: float, seed: int = 0) -> FileMesh:
    """Triangles with corners of their own, in another order; the unit of noise is the diagonal."""
    random = np.random.default_rng(seed)
    points, faces = shape.vertices.numpy(), shape.faces.numpy()
    faces = faces[random.permutation(len(faces))]
    noise *= np.linalg.norm(np.ptp(points, axis=0))
    corners = points[faces].reshape(-1, 3) + noise * random.uniform(-1, 1, (faces.size, 3))
    return FileMesh(corners, np.arange(faces.size), np.full(len(faces), 3))


NOISES = (1e-8, 1e-7, 1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
@pytest.mark.parametrize("shape", [cube(), torus(), lumpy(icosphere(2))])
@pytest.mark.parametrize("noise", NOISES)
def test_a_soup_with_noise_becomes_the_surface_that_it_was(shape, noise, scale) -> None:
    file = soup_of(shape, noise)
    clean = repair(replace(file, vertices=soup_of(shape, 0.0).vertices * scale))
    noisy = repair(replace(file, vertices=file.vertices * scale))
    assert clean.topology.closed
    assert noisy.topology == clean.topology
    np.testing.assert_array_equal(noisy.faces, clean.faces)
    np.testing.assert_array_equal(noisy.vertex_map, clean.vertex_map)
    np.testing.assert_array_equal(noisy.kept_faces, clean.kept_faces)
    pairs = [int(text.split()[0]) for text in noisy.warnings if "nearly coincide" in text]
    assert len(pairs) == 1
    assert pairs[0] <= 3 * len(clean.faces) / 2  # some are merged as equal at the least noise
    assert noise == NOISES[0] or pairs[0] == 3 * len(clean.faces) / 2
    assert "coincide" not in " ".join(clean.warnings)


def test_without_a_tolerance_a_warning_says_how_to_merge() -> None:
    shape = lumpy(icosphere(1))
    for noise, merge in ((1e-6, 0), (1e-4, 1e-5)):
        apart = repair(soup_of(shape, noise), merge=merge)
        assert apart.topology.components == shape.num_faces
        assert apart.counts.merged_vertices == 0
        (remedy,) = (text for text in apart.warnings if "coincide" in text)
        assert remedy.startswith("120 pairs of boundary edges nearly coincide, within")
        together = repair(soup_of(shape, noise), merge=float(remedy.split("merge=")[1]))
        assert (together.topology.closed, together.topology.components) == (True, 1)
    fails("lies at the place of vertex", repair, soup_of(shape, 1e-6), strict=True)


# Features near or below the default tolerance, all with boundaries.
GAP = 1e-7
SMALL = {
    "a small patch": ([*SQUARE, *(1e-5 * np.array(SQUARE) + 2)], [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "a small box": (np.concatenate([CUBE, 1e-5 * CUBE + 3]), [*QUADS, *(np.array(QUADS[:5]) + 8)]),
    "a sliver": ([*SQUARE, [0.5, -GAP, 0]], [*HALVES, [0, 4, 1]]),
    "a narrow strip": ([*SQUARE, [0, -GAP, 0], [1, -GAP, 0]], [[0, 1, 2, 3], [0, 1, 5, 4]]),
    "corners that touch": (
        np.concatenate([SQUARE, np.array(SQUARE) + 1 + GAP]), [[0, 1, 2, 3], [4, 5, 6, 7]]
    ),
    "an edge beside half of another": (
        [*SQUARE, [1 + GAP, 0, 0], [2, 0, 0], [1 + GAP, 0.5, 0]], [[0, 1, 2, 3], [4, 5, 6]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_features_are_no_noise(name: str) -> None:
    vertices, faces = SMALL[name]
    file = file_mesh(vertices, faces)
    merged, exact = repair(file), repair(file, merge=0)
    np.testing.assert_array_equal(merged.faces, exact.faces)
    np.testing.assert_array_equal(merged.vertices, exact.vertices)
    assert merged.warnings == exact.warnings
    assert merged.counts.merged_vertices == 0
    assert len(merged.faces) == int((file.sizes - 2).sum())


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-7, 1e-5, 1e-3, 0.1]))
def test_corners_move_by_a_tenth_of_an_edge_at_most(seed: int, merge: float) -> None:
    random = np.random.default_rng(seed)
    file = soup_of(cube(), 0.0, seed)
    noise = 10.0 ** random.uniform(-9, -0.5, (len(file.vertices), 1))
    file = replace(file, vertices=file.vertices + noise * random.normal(size=file.vertices.shape))
    exact, merged = repair(file, merge=0), repair(file, merge=merge)
    assert merged.counts.repeated_index_faces == exact.counts.repeated_index_faces
    before = file.vertices.reshape(-1, 3, 3)[merged.kept_triangles]
    after = merged.vertices[merged.vertex_map.reshape(-1, 3)[merged.kept_triangles]]
    edges = np.linalg.norm(before - np.roll(before, 1, axis=1), axis=2)
    # Equal positions are within 1e-9 of the diagonal, which is below ten here.
    assert (np.linalg.norm(after - before, axis=2).max(1) <= 0.1 * edges.min(1) + 1e-8).all()


@pytest.mark.parametrize("name", ["merge", "min_component"])
def test_tolerances_are_numbers_in_a_range(name: str) -> None:
    for value in (-1e-9, 2.0, NAN):
        refused(f"{name} must be", repair, two_boxes(True), **{name: value})
    for value in ("auto", None, True, [0.1]):
        wrong = {name: value}
        refused(f"{name} must be a number", repair, two_boxes(True), **wrong, error=TypeError)


def test_components_below_a_share_of_the_area_are_dropped_and_counted() -> None:
    points = np.concatenate([CUBE, 0.1 * CUBE + 3, 0.2 * CUBE - 1, 0.01 * CUBE + 2])
    faces = [[v + 8 * k for v in quad] for k in (1, 0, 3, 2) for quad in QUADS]
    file = file_mesh(points, faces)
    total = 1 + 0.1**2 + 0.2**2 + 0.01**2  # in units of the largest
    for least, dropped, lost in (
        (0.0, (), 0.0), (1e-5, (), 0.0), (1e-3, (3,), 0.01**2), (0.02, (1, 3), 0.1**2 + 0.01**2),
        (0.05, (1, 2, 3), total - 1),
    ):  # fmt: skip
        repaired = repair(file, min_component=least)
        assert repaired.counts.small_component_faces == 12 * len(dropped)
        assert repaired.counts.removed_faces == 12 * len(dropped)
        assert repaired.topology.components == 4 - len(dropped)
        assert repaired.lost_area == pytest.approx(lost / total)
        quads = [n for n in range(24) if (1, 0, 3, 2)[n // 6] not in dropped]
        assert repaired.kept_faces.tolist() == np.repeat(quads, 2).tolist()
        number = f"dropped {len(dropped)} components of less than {least:g} of the area"
        assert any(number in text for text in repaired.warnings) == bool(dropped)
    message = "no component of 0.99 of the area, the largest has 0.95"
    fails(message, repair, file, min_component=0.99)
    triangles = file_mesh(points, file.triangles()[0])
    fails("^face 0 is in a component", repair, triangles, strict=True, min_component=0.02)


def test_a_moebius_strip_keeps_its_faces_and_its_seam() -> None:
    def seam(repaired) -> set[tuple[float, ...]]:
        """Where vertices lie that were split."""
        number = np.bincount(repaired.kept_vertices)
        return {tuple(x) for x in repaired.vertices[number[repaired.kept_vertices] > 1].tolist()}

    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    cos, sin, half = np.cos(turn), np.sin(turn), turn / 2
    across = np.stack([np.cos(half) * cos, np.cos(half) * sin, np.sin(half)], axis=1)
    middle = 3 * np.stack([cos, 1.1 * sin, 0 * turn], axis=1)
    points = np.concatenate([middle - across, middle + across])
    faces = []
    for n in range(12):  # after a full turn the two sides have changed places
        next_low, next_high = (n + 1, n + 13) if n < 11 else (12, 0)
        faces += [[n, next_low, n + 12], [n + 12, next_low, next_high]]
    expected = repair(file_mesh(points, faces))
    assert len(expected.faces) == 24
    assert expected.counts.nonmanifold_edges == 1
    assert expected.topology.oriented
    assert "1 components cannot be oriented; cut at a seam" in expected.warnings
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(24)
        assert seam(repair(file_mesh(points, np.array(faces)[order]))) == seam(expected)


def test_copies_that_meet_again_are_told_apart_by_pairs() -> None:
    repaired = repaired_again()
    assert len(repaired.faces) == 8
    assert repaired.pairs is not None
    assert repaired.topology.oriented
    edges = Surface.from_mesh(met_again()).edges().tolist()
    assert [0, 2] in edges
    assert [1, 3] in edges
    assert len(edges) == len(repaired.pairs) == 2 + 6
    fails("non-manifold", Surface.from_mesh, TriangleMesh(repaired.vertices, repaired.faces))


def test_a_clique_joins_every_face_with_every_other_and_no_policy_else_is_known() -> None:
    vertices, faces, *_ = DEFECTS["third face"]
    repaired = repair(file_mesh(vertices, faces), nonmanifold="clique")
    assert len(repaired.faces) == 3
    assert repaired.counts.nonmanifold_edges == 1
    assert len(repaired.vertices) == 5
    mesh = TriangleMesh(repaired.vertices, repaired.faces, repaired.pairs)
    surface = Surface.from_mesh(mesh)
    assert surface.edges().tolist() == [[0, 1], [0, 2], [1, 2]]
    angle = HalfEdgeGeometry.measure(mesh.vertices, mesh.faces).dihedral_angle(surface.pairs)
    quarter = torch.minimum(angle, 2 * torch.pi - angle) / (torch.pi / 2)
    torch.testing.assert_close(quarter, torch.tensor([2.0, 1, 1], dtype=torch.float64))
    with pytest.raises(ValueError, match=r"nonmanifold must be one of \('cut', 'drop', 'clique'\)"):
        repair(two_boxes(True), nonmanifold="keep")


@st.composite
def broken_meshes(draw: st.DrawFn) -> FileMesh:
    """Anything: few places, so that coincidences of every kind are common."""
    coordinate = st.sampled_from([0.0, 1.0, 2.0, 1e-12, 1e-7, 0.5, NAN, INF])
    position = st.tuples(coordinate, coordinate, coordinate)
    vertices = draw(st.lists(position, min_size=1, max_size=12))
    face = st.lists(st.integers(0, len(vertices) - 1), max_size=5)
    return file_mesh(vertices, draw(st.lists(face, max_size=20)))


@given(broken_meshes(), st.sampled_from(["cut", "drop", "clique"]))
def test_what_is_left_of_any_mesh_is_sound_and_accounted_for(file: FileMesh, policy) -> None:
    try:
        repaired = repair(file, nonmanifold=policy)
    except MeshError as error:
        assert re.match("has no", str(error))  # noqa: PT017
        return
    assert np.isfinite(repaired.vertices).all()
    assert (np.bincount(repaired.faces.ravel(), minlength=len(repaired.vertices)) > 0).all()
    assert (repaired.vertices == file.vertices[repaired.kept_vertices]).all()
    used = np.unique(file.triangles()[0][repaired.kept_triangles])
    assert (repaired.vertex_map[used] >= 0).all()
    triangles = int((file.sizes - 2).clip(0).sum())
    counts = repaired.counts
    assert len(repaired.faces) == triangles - counts.removed_faces
    assert policy == "drop" or not counts.nonmanifold_faces
    assert (np.diff(repaired.kept_triangles) > 0).all()
    mesh = TriangleMesh(repaired.vertices, repaired.faces, repaired.pairs)
    surface = Surface.from_mesh(mesh)  # refuses what is not sound
    if policy != "clique":
        pairs = surface.pairs.numpy()
        assert len(np.unique(pairs)) == pairs.size
        assert repaired.topology.oriented
        given = None if repaired.pairs is None else repaired.pairs
        assert MeshTopology.from_faces(repaired.faces, pairs=given) == repaired.topology
        assert 2 * len(pairs) == repaired.faces.size or not repaired.topology.closed
    again = repair(
        FileMesh(repaired.vertices, repaired.faces.ravel(), np.full(len(repaired.faces), 3)),
        nonmanifold=policy,
    )
    assert again.counts.removed_faces == 0
    assert len(again.faces) == len(repaired.faces)


@given(broken_meshes())
def test_strict_mode_raises_exactly_where_something_would_be_repaired(file: FileMesh) -> None:
    try:
        sound = not any(vars(repair(file).counts).values())
    except MeshError:
        sound = False
    if sound:
        assert len(repair(file, strict=True).faces) == file.num_faces
    else:
        fails(".", repair, file, strict=True)


@given(soups())
def test_duplicates_are_all_but_the_first_of_a_vertex_set(faces: NDArray[np.int64]) -> None:
    seen: set[frozenset[int]] = set()
    expected = []
    for face in faces.tolist():
        expected.append(frozenset(face) in seen)
        seen.add(frozenset(face))
    assert duplicate_faces(faces).tolist() == expected


def test_unit_points_do_not_depend_on_the_unit_or_on_vertices_out_of_use() -> None:
    points = np.random.default_rng(0).random((20, 3))
    expected = scale_to_unit_diagonal(points, np.arange(20))
    for scale in (1e-300, 1e-9, 1.0, 1e300):
        moved = scale_to_unit_diagonal(points * scale, np.arange(20))
        np.testing.assert_allclose(moved, expected, **tolerance(torch.float64))
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 1e308, np.inf]])
    moved = scale_to_unit_diagonal(points, np.array([[0, 1, 2]]))
    assert np.linalg.norm(np.ptp(moved[:3], axis=0)) == pytest.approx(1)


WALL = [*SQUARE, [0, 0, 1]]  # a wall over the diagonal of the square, of area 1 / sqrt(2)
BOOK = [[0, 1, 2], [0, 2, 3], [0, 2, 4]]


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_lost_area_is_of_distinct_triangles_with_an_area(scale) -> None:
    for vertices, faces, lost in (
        *((SQUARE, HALVES, 0), (SQUARE, [*HALVES, [2, 1, 0]], 0)),  # a repetition
        ([*SQUARE, [0.5, 0, 0]], [*HALVES, [0, 4, 1]], 0),  # degenerate
        *((SQUARE, [[0, 1, 2], [0, 2, 2]], 0), (SQUARE, [[0, 1, 2], [0, 3, 2]], 0)),  # turned over
        ([*SQUARE, [NAN, 0, 0]], [*HALVES, [0, 3, 4], [1, 2, 4]], 0.5),
        (WALL, BOOK, 0),
    ):
        repaired = repair(file_mesh(np.array(vertices) * scale, faces))
        assert repaired.lost_area == pytest.approx(lost, abs=SHARE)


def test_dropped_and_turned_faces_and_nonmanifold_edges_are_listed() -> None:
    repaired = repair(file_mesh(WALL, BOOK), nonmanifold="drop")
    wall = np.sqrt(0.5)
    assert repaired.lost_area == pytest.approx(wall / (1 + wall), rel=SHARE)
    repaired = repair(file_mesh(SQUARE, [[0, 1, 2], [0, 3, 2]]))
    assert repaired.turned_faces.tolist() == [1]
    assert repaired.turned_area == pytest.approx(0.5, rel=SHARE)

    loose = [[9.0, 9, 9], *WALL]
    faces = [[k + 1 for k in face] for face in BOOK]
    for policy in ("cut", "clique"):
        repaired = repair(file_mesh(loose, faces), nonmanifold=policy)
        assert repaired.nonmanifold_edges.tolist() == [[1, 3]]
    repaired = repair(file_mesh(loose, faces), nonmanifold="drop")
    assert repaired.nonmanifold_edges.shape == (0, 2)


@given(soups(), st.sampled_from(["cut", "drop", "clique"]))
def test_areas_are_shares_and_edges_are_counted(soup, policy) -> None:
    points = np.random.default_rng(0).normal(size=(9, 3))  # none on a line with two others
    repaired = repair(file_mesh(points, soup), nonmanifold=policy)
    counts, lost, turned = repaired.counts, repaired.lost_area, repaired.turned_area
    assert 0 <= lost < 1
    assert 0 <= turned <= 1 + 1e-12
    assert (lost > 0) == (counts.nonmanifold_faces + counts.nonfinite_faces > 0)
    assert (turned > 0) == bool(len(repaired.turned_faces))
    assert policy == "drop" or len(repaired.turned_faces) == counts.reoriented_faces
    assert len(repaired.nonmanifold_edges) == counts.nonmanifold_edges


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
        repaired = repair(file, nonmanifold=policy)
    except MeshError:
        return
    found, corners = repaired.attributes, repaired.vertices[repaired.faces]
    np.testing.assert_array_equal(found.vertices["place"], repaired.vertices)
    np.testing.assert_array_equal(found.vertices["number"], repaired.kept_vertices)
    np.testing.assert_array_equal(found.faces["number"], repaired.kept_faces)
    np.testing.assert_array_equal(found.corners["corner"], corners)
    assert "place" not in found.corners  # what is merged here lies at exactly the same position
    # Each corner belongs to a vertex of its own polygon, which became the vertex that it is at.
    owner = found.corners["owner"].numpy()
    np.testing.assert_array_equal(file.vertices[owner], corners)
    merged = (owner != repaired.kept_vertices[repaired.faces]).any()
    assert ("number" in found.corners) == merged
    if merged:
        np.testing.assert_array_equal(found.corners["number"], owner)


def test_attributes_of_vertices_that_differ_are_kept_at_corners() -> None:
    values = FileAttributes({"uv": np.arange(6.0), "same": np.array([1.0, 2, 3, 4, 1, 3])})
    vertices = [*SQUARE, SQUARE[0], SQUARE[2]]
    repaired = repair(file_mesh(vertices, [[0, 1, 2], [4, 5, 3]], attributes=values))
    assert repaired.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert repaired.attributes.vertices["uv"].tolist() == [0, 1, 2, 3]  # of the first
    assert repaired.attributes.corners["uv"].tolist() == [[0, 1, 2], [4, 5, 3]]
    assert list(repaired.attributes.corners) == ["uv"]
    values = FileAttributes({"uv": np.arange(6.0)}, {}, {"uv": 10 + np.arange(6.0)})
    repaired = repair(file_mesh(vertices, [[0, 1, 2], [4, 5, 3]], attributes=values))
    assert repaired.attributes.corners["uv"].tolist() == [[10, 11, 12], [13, 14, 15]]
    nothing = FileAttributes(warnings=("left out",))
    file = file_mesh(SQUARE, [[0, 1, 2], [0, 2, 3]], attributes=nothing)
    none = np.zeros(0, np.int64)
    assert follow_attributes(file, none, none > 0, none.reshape(0, 3), none) is nothing
    assert repair(file).warnings == ("left out",)


@pytest.mark.parametrize("largest", [5, 10**6, 2**62])
def test_sorted_numbers_keep_the_order_of_equal_ones(largest):
    keys = np.random.default_rng(0).integers(0, largest, 1000)
    found, order = topology._sort(keys)
    assert np.array_equal(order, np.argsort(keys, kind="stable"))
    assert np.array_equal(found, np.sort(keys))


FANS = [
    shapes.icosphere(1), shapes.bowl(), shapes.strip(), shapes.two_isolated(), shapes.sponge(),
    shapes.union(shapes.cube(), shapes.cube()), shapes.without_faces(shapes.icosphere(1), [3, 50]),
]  # fmt: skip


@pytest.mark.parametrize("shape", FANS)
@pytest.mark.parametrize("seed", range(3))
def test_fans_of_consistent_meshes_are_those_of_connected_corners(shape, seed):
    random = np.random.default_rng(seed)
    faces = shape.faces.numpy()[random.permutation(len(shape.faces))]
    for merged in range(3):  # vertices that become one have several fans
        name = random.permutation(faces.max() + 1)
        name[:merged] = name[-1]
        some = name[faces]
        some = some[(some != np.roll(some, 1, axis=1)).all(axis=1)]
        edges = topology.EdgeTable.from_faces(some)
        fan = topology.vertex_fans(some, topology._all_links(edges))
        pairs = np.unique(np.stack([fan, some.ravel()]), axis=1)
        expected = np.bincount(pairs[1])
        assert np.array_equal(topology._num_fans(some, edges, edges.twins(), None), expected)
        if merged == 0:
            assert np.array_equal(topology._num_orbits(some.ravel(), *edges.twins().T), expected)
