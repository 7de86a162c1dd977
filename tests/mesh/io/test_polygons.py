"""Polygons of files cut into triangles: areas, first corners, warnings."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from equigeo.mesh import load_mesh
from equigeo.mesh.io import polygons
from equigeo.mesh.io.file_mesh import FileMesh
from tests.mesh.definitions import count_calls
from tests.mesh.io import files
from tests.tier import tier

Points = NDArray[np.float64]


def cut(vertices: Points, *faces: list[int]) -> tuple[FileMesh, NDArray[np.int64]]:
    sizes = np.array([len(face) for face in faces])
    mesh = FileMesh(vertices, np.concatenate(faces), sizes)
    return mesh, mesh.triangles()[0]


def areas(vertices: Points, triangles: NDArray[np.int64]) -> Points:
    a, b, c = vertices[triangles].transpose(1, 0, 2)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def vector_area(points: Points) -> float:
    """Area of a planar polygon, by Newell's formula."""
    offset = points - points[0]
    return float(np.linalg.norm(np.cross(offset, np.roll(offset, -1, axis=0)).sum(axis=0)) / 2)


def spiral(rng: np.random.Generator, size: int) -> Points:
    """A corridor of up to three turns between two arms."""
    turns = rng.uniform(0.1, size / 20)
    share = np.linspace(0, 1, size // 2 + 2)
    angle = 2 * np.pi * turns * share
    radius = np.stack([1 + turns * share, 1 + turns * share - rng.uniform(0.2, 0.9)])
    arms = radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([arms[0], arms[1, ::-1]])


def skyline(rng: np.random.Generator, size: int) -> Points:
    """A histogram of whole numbers: equal lengths, right angles and flat corners."""
    heights = rng.integers(1, 4, size // 2)
    steps = [(x + right, y) for x, y in enumerate(heights) for right in (0, 1)]
    return np.array([(len(heights), 0), (0, 0), *steps], np.float64)[::-1]


@st.composite
def simple_polygons(draw: st.DrawFn) -> tuple[Points, Points]:
    """A polygon without crossings, with flat corners and repeated points, and a copy elsewhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    make = draw(st.sampled_from([files.star, spiral, skyline]))
    outline = make(rng, draw(st.integers(4, 60)))
    for _ in range(draw(st.integers(0, 8))):  # a corner on a side, perhaps at its end
        place = rng.integers(len(outline))
        share = rng.choice([rng.uniform(), 1.0])
        point = outline[place - 1] + share * (outline[place] - outline[place - 1])
        outline = np.insert(outline, place, point if share < 1 else outline[place], axis=0)
    if draw(st.booleans()):  # all ears are slivers
        outline[:, 1] *= 2.0**-20
        return outline @ np.eye(2, 3), outline[:, ::-1] @ np.diag([-1.0, 1]) @ np.eye(2, 3)
    plane = np.linalg.qr(rng.normal(size=(3, 3)))[0][:2]
    size, offset = 10.0 ** rng.integers(-3, 4, 2)
    return outline @ np.eye(2, 3), outline @ plane * size + rng.normal(size=3) * min(offset, size)


@settings(max_examples=tier(60, 300))
@given(simple_polygons(), st.randoms(use_true_random=False))
def test_triangles_cover_a_polygon_and_do_not_depend_on_its_first_corner(drawn, random) -> None:
    size, number = len(drawn[0]), list(range(len(drawn[0])))
    random.shuffle(number)
    # Every first corner of small polygons, a few of large ones; each in both places.
    shifts = range(size) if size < 12 else random.sample(range(size), 3)
    found = set()
    for points in drawn:
        vertices = np.empty_like(points)
        vertices[number] = points
        repeated = (points == np.roll(points, -1, axis=0)).all(axis=1).sum()
        for shift in shifts:
            mesh, triangles = cut(vertices, [*number[shift:], *number[:shift]])
            part = areas(vertices, triangles) / vector_area(points)
            assert len(part) == size - 2
            # Rounding of coordinates beside offsets of one size and of the sums.
            assert part.sum() == pytest.approx(1, rel=1e-12)
            # Flat corners cost no triangle: only repeated points do, up to that rounding.
            assert (part < 1e-12).sum() <= repeated
            assert mesh.polygon_warnings() == ()
            found.add(frozenset(frozenset(triangle) for triangle in triangles.tolist()))
    assert len(found) == 1


L = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
PRISM = np.array([(x, y, z) for z in (0, 2) for x, y in L], np.float64)
SIDES = [[k, (k + 1) % 6, (k + 1) % 6 + 6, k + 6] for k in range(6)]
WRITERS = {
    "text.obj": files.obj_text,
    "text.off": files.off_text,
    "text.ply": files.ply_text,
    "little.ply": files.ply_binary,
    "big.ply": partial(files.ply_binary, order=">"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_concave_faces_have_their_area_in_every_format(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for shift in range(6):
        base = [(k + shift) % 6 for k in range(6)]
        faces = [base[::-1], [k + 6 for k in base], *SIDES]
        path.write_bytes(WRITERS[name](PRISM, faces))
        mesh, report = load_mesh(path)
        found = areas(mesh.vertices.numpy(), mesh.faces.numpy())
        # Which face of the file each triangle is part of; sides are 2 high.
        by_face = np.bincount(report.kept_faces.numpy(), found)
        np.testing.assert_allclose(by_face, [3, 3, 4, 2, 2, 2, 2, 4], rtol=1e-15)  # a few sums
        assert (report.topology.closed, report.topology.euler, report.warnings) == (True, 2, ())
        assert report.counts.zero_area_faces == report.counts.reoriented_faces == 0


def test_corners_keep_their_own_values_and_faces_theirs(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    outline = files.star(rng, 40)
    vertices = np.concatenate([outline @ np.eye(2, 3), PRISM + 3])
    faces = [[*range(40)], [45, 44, 43, 42, 41, 40], [46, 47, 48, 49, 50, 51], [40, 41, 47, 46]]
    corners = [corner for face in faces for corner in face]
    uv = rng.normal(size=(len(corners), 2))
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    rows += [f"vt {u!r} {v!r}" for u, v in uv.tolist()]
    number = iter(range(1, len(corners) + 1))
    rows += ["f " + " ".join(f"{c + 1}/{next(number)}" for c in face) for face in faces]
    (tmp_path / "uv.obj").write_text("\n".join(rows))
    split = np.split(uv.ravel(), 2 * np.cumsum([len(face) for face in faces])[:-1])
    elements = {
        "vertex": {f"double {axis}": vertices[:, k].tolist() for k, axis in enumerate("xyz")},
        "face": {
            "list uchar int vertex_indices": faces,
            "list uchar double texcoord": [values.tolist() for values in split],
            "int label": [7, 8, 9, 10],
        },
    }
    (tmp_path / "uv.ply").write_bytes(files.ply_file("<", elements))
    for name in ("uv.obj", "uv.ply"):
        mesh, report = load_mesh(tmp_path / name)
        face, source = report.kept_faces.numpy(), report.kept_vertices.numpy()
        at = {pair: k for k, pair in enumerate(zip(np.repeat([0, 1, 2, 3], [40, 6, 6, 4]).tolist(),
                                                   corners, strict=True))}  # fmt: skip
        for k, triangle in enumerate(source[mesh.faces.numpy()].tolist()):
            expected = [uv[at[int(face[k]), corner]] for corner in triangle]
            np.testing.assert_array_equal(report.attributes.corners["uv"][k], expected)
        if name == "uv.ply":
            assert (report.attributes.faces["label"].numpy() == face + 7).all()


DART = np.array([(0, 0, 0), (2, 0, 0), (0.5, 0.5, 0), (0, 2, 0)], np.float64)
MIDDLE = np.array([(0, 0, 0), (2, 0, 0), (1, 2, 0), (0, 4, 0)], np.float64)  # of a side
KITE = np.array([(0, 0, 0), (2, -1, 0), (3, 0, 0), (2, 1, 0)], np.float64)


@pytest.mark.parametrize(
    ("points", "diagonal"),
    [(DART, {0, 2}), (MIDDLE, {0, 2}), (KITE, {1, 3}), (np.roll(KITE, 1, axis=0), {0, 2}),
     (np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], np.float64), {0, 2})],
)  # fmt: skip
def test_quads_are_cut_along_the_shorter_valid_diagonal(points: Points, diagonal: set[int]) -> None:
    for scale in (1.0, 1e-200, 1e150):
        for face in ([0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2], [3, 2, 1, 0]):
            one, other = map(set, cut(points * scale, face)[1].tolist())
            assert one & other == diagonal


def test_corners_within_a_side_in_six_digits_make_no_slivers() -> None:
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.float64)
    share = np.arange(4)[:, None] / 4
    outline = [
        a + share * (b - a) for a, b in zip(square, np.roll(square, -1, axis=0), strict=True)
    ]
    for seed in range(20):
        plane = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0][:2]
        vertices = np.round(np.concatenate(outline) @ plane, 6)
        _, triangles = cut(vertices, [*range(16)])
        assert areas(vertices, triangles).min() > 0.01


def with_holes(rng: np.random.Generator, count: int) -> tuple[Points, list[int], float]:
    """A rectangle with stars cut out, joined in a chain by edges that are passed twice."""
    far = 3.0 * count + 1
    vertices, area = np.array([(-2, -3), (far, -3), (far, 3), (-2, 3)]), 6 * (far + 2)
    holes: list[list[int]] = []
    for k in range(count):
        hole = files.star(rng, int(rng.integers(3, 9)))[::-1]
        hole += np.array([3 * k, rng.normal() / 2])
        hole = np.roll(hole, -hole[:, 0].argmin(), axis=0)  # the leftmost corner first
        holes.append([*range(len(vertices), len(vertices) + len(hole))])
        vertices, area = np.concatenate([vertices, hole]), area - vector_area(hole @ np.eye(2, 3))
    face: list[int] = []
    for hole in holes[::-1]:  # each with the later ones as a detour at its rightmost corner
        turn = int(vertices[hole, 0].argmax())
        detour = [*face, hole[turn]] if face else []
        face = [*hole[: turn + 1], *detour, *hole[turn + 1 :], hole[0]]
    return vertices @ np.eye(2, 3), [3, *face, 3, 0, 1, 2], area


def test_holes_joined_by_edges_that_are_passed_twice_stay_empty() -> None:
    for seed in range(120):
        rng = np.random.default_rng(seed)
        vertices, face, area = with_holes(rng, 1 + seed % 5)
        shift = int(rng.integers(len(face)))
        mesh, triangles = cut(vertices, face[shift:] + face[:shift])
        assert areas(vertices, triangles).sum() == pytest.approx(area, rel=1e-12)  # a few sums
        assert mesh.polygon_warnings() == ()


def test_polygons_that_are_not_planar_or_cross_themselves_give_one_warning(tmp_path) -> None:
    saddle = np.array([(0, 0, 9.5), (1, 0, 9), (1, 1, 9.5), (0, 1, 9)])
    bow = np.array([(0, 0, 6), (1, 1, 6), (1, 0, 6), (0, 1, 6)])
    pentagram = np.array([(np.cos(t), np.sin(t), 3) for t in 0.8 * np.pi * np.arange(5)])
    vertices = np.concatenate([DART, pentagram, bow, saddle])
    faces = [[0, 1, 2, 3], [0, 1, 2], [4, 5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    path = tmp_path / "folds.off"
    path.write_bytes(files.off_text(vertices, faces))
    (warning,) = (text for text in load_mesh(path)[1].warnings if "polygons" in text)
    assert warning.startswith("3 of 4 polygons are not planar or cross themselves, first line 22 ")
    path.write_bytes(files.off_text(DART, [[0, 1, 2, 3]]))
    assert load_mesh(path)[1].warnings == ()


def test_points_that_make_no_polygon_are_cut_all_the_same() -> None:
    rng = np.random.default_rng(0)
    for size in (5, 30, 200):
        line = np.linspace(0, 1, size)[:, None] * rng.normal(size=3)
        one = np.ones((size, 3))
        unknown = files.star(rng, size) @ np.eye(2, 3)
        unknown[3] = np.nan
        far = files.star(rng, size) @ np.eye(2, 3) * 1e308 * 1.7
        for vertices in (line, one, unknown, far, rng.normal(size=(size, 3)), one[:, :0] @ one[:0]):
            _, triangles = cut(vertices, [*range(size)])
            # Every corner is in a triangle, and an edge inside the polygon in two.
            assert np.unique(triangles).tolist() == [*range(size)]
            edges = np.sort(np.stack([triangles, np.roll(triangles, 1, axis=1)]), axis=0)
            assert len(np.unique(edges.reshape(2, -1), axis=1).T) == 2 * size - 3


def test_a_polygon_beyond_the_limit_of_work_is_cut_with_a_warning(monkeypatch) -> None:
    points = np.insert(spiral(np.random.default_rng(1), 300), 2, 0, axis=1)
    mesh, _ = cut(points, [*range(len(points))])
    assert mesh.polygon_warnings() == ()
    monkeypatch.setattr(polygons, "_WORK", 0)
    mesh, triangles = cut(points, [*range(len(points))])
    assert len(triangles) == len(points) - 2
    assert mesh.polygon_warnings()[0].startswith("1 of 1 polygons")


def test_the_number_of_calls_does_not_grow_with_the_number_of_polygons() -> None:
    calls = []
    for count in (100, 4000):
        vertices = np.tile([*L[1:], (0, 0)], (count, 1)) @ np.eye(2, 3)
        corners = np.arange(6 * count)
        call = partial(polygons.triangulate, vertices, corners, np.full(count, 6))
        assert areas(vertices, call()[0]).sum() == pytest.approx(3 * count, rel=1e-12)  # sums
        calls.append(count_calls(call))
    assert calls[1] < 2 * calls[0]
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    disc = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    call = partial(polygons.triangulate, disc, np.arange(2000), np.array([2000]))
    assert count_calls(call) < 10 * calls[0]  # many ears are cut at once
