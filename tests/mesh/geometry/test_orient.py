import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.utils._python_dispatch import TorchDispatchMode
from trimesh.creation import box, icosphere

from equigeo.groups import O
from equigeo.mesh import MeshError, PrimalDualGraph, TriangleMesh
from equigeo.mesh.geometry import orient as module
from equigeo.mesh.geometry.connectivity import (
    coincident_points,
    concatenate_ranges,
    connected_components,
)
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry, pairs_of_faces
from equigeo.mesh.geometry.orient import nesting_depth, orient
from equigeo.testing import tolerance
from tests.mesh import shapes
from tests.mesh.definitions import components
from tests.mesh.shapes import met_again
from tests.tier import tier
from tests.wrong_inputs import refused

CLOSED = [shapes.cube(), shapes.icosphere(1), shapes.torus(), shapes.closed_strip()]


def _normals(shape):
    corner = shape.vertices[shape.faces]
    return torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def _volume(shape, faces=slice(None)):
    return float(torch.linalg.det(shape.vertices[shape.faces[faces]]).sum()) / 6


def _bend(shape):
    """Return the total mean curvature up to a factor."""
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    pairs = pairs_of_faces(shape.faces)
    bend = geometry.dihedral_angle(pairs) - torch.pi
    return (geometry.length.reshape(-1)[pairs[:, 0]] * bend).sum()


@pytest.mark.parametrize("shape", CLOSED)
def test_closed_parts_are_wound_outwards_whatever_vertices_of_no_face(shape):
    far = torch.cat([shape.vertices, torch.full((1, 3), 1e12, dtype=torch.float64)])
    expected = orient(shape).faces
    assert _volume(orient(shape)) > 0
    for faces in (shape.faces, shape.faces[:, [0, 2, 1]]):
        assert torch.equal(orient(TriangleMesh(shape.vertices, faces)).faces, expected)
        assert torch.equal(orient(TriangleMesh(far, faces)).faces, expected)


@given(shapes.meshes())
def test_faces_keep_their_places_and_corners(shape):
    oriented = orient(shape)
    assert torch.equal(oriented.vertices, shape.vertices)
    assert torch.equal(oriented.faces.sort(dim=1).values, shape.faces.sort(dim=1).values)
    assert torch.equal(orient(oriented).faces, oriented.faces)


@settings(max_examples=tier(10, 100))
@given(shapes.meshes(("sphere", "torus", "two parts")))
def test_orientation_commutes_with_rotations_and_reflections_and_forgets_the_winding(shape):
    expected = orient(shape)
    for g in O(3).testing_elements(torch.Generator().manual_seed(0)):
        moved = orient(shape.act(g))
        turned = bool(torch.linalg.det(g) < 0)
        outward = shapes.reversed_winding(expected) if turned else expected
        assert torch.equal(_normals(moved), _normals(outward.act(g)))
    rewound = orient(shapes.reversed_winding(shape))
    assert torch.equal(_normals(rewound), _normals(expected))


def test_every_part_is_turned_by_itself_also_where_parts_touch_in_a_vertex():
    inward = shapes.reversed_winding(shapes.icosphere(1))
    outward = shapes.moved(shapes.cube(), (5, 0, 0))
    small = shapes.moved(shapes.scaled(shapes.reversed_winding(shapes.cube()), 1e-3), (-5, 2, 0))
    oriented = orient(shapes.union(inward, outward, small))
    expected = shapes.union(
        shapes.reversed_winding(inward), outward, shapes.reversed_winding(small)
    )
    assert torch.equal(oriented.faces, expected.faces)
    cube = shapes.cube()
    faces = cube.faces.clone()
    faces[3] = faces[3, [0, 2, 1]]
    refused("inconsistently wound", orient, shapes.mesh(cube.vertices, faces), error=MeshError)
    first = shapes.tetrahedron()
    second = shapes.mesh(
        torch.cat((first.vertices[:1], 3 * first.vertices[:1] - first.vertices[1:])),
        shapes.reversed_winding(first).faces,
    )
    joined = shapes.union(first, second)
    faces = torch.where(joined.faces == 4, 0, joined.faces)
    glued = shapes.mesh(joined.vertices, faces)
    one_turned = faces.clone()
    one_turned[:4] = one_turned[:4, [0, 2, 1]]
    expected = _normals(orient(glued))
    assert torch.equal(_normals(orient(shapes.mesh(joined.vertices, one_turned))), expected)


def test_mean_curvature_decides_for_open_parts_and_volume_for_closed_ones():
    bowl = shapes.bowl()  # the upper part of a sphere, normals away from the center
    mirrored = orient(shapes.mirrored(bowl))
    assert torch.equal(mirrored.faces, shapes.reversed_winding(bowl).faces)
    sponge = shapes.sponge()
    assert float(_bend(sponge)) < 0
    for shape in (bowl, sponge):
        for wound in (shape, shapes.reversed_winding(shape)):
            assert torch.equal(orient(wound).faces, shape.faces)
    for height in (-100.0, 0.0, 100.0):  # other parts do not matter
        cube = shapes.moved(shapes.cube(), (5, 5, height))
        oriented = orient(shapes.union(shapes.reversed_winding(bowl), cube))
        assert torch.equal(oriented.faces, shapes.union(bowl, cube).faces)


@pytest.mark.parametrize(
    "shape", [shapes.strip(), shapes.triangle(), shapes.two_isolated(), shapes.pillow()]
)
def test_flat_parts_have_no_outside_and_are_left_alone(shape):
    for moved in (shape, shapes.reversed_winding(shape), shapes.turned(shape)):
        assert torch.equal(orient(moved).faces, moved.faces)


def test_an_open_part_without_mean_curvature_is_wound_by_its_larger_bends():
    # A floor, a step up and a shorter top: its two bends cancel in the total mean curvature.
    profile = [(-3.0, 0.0), (0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    quads = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(3)]
    faces = [f for a, b, c, d in quads for f in ((a, b, c), (a, c, d))]
    sheet = shapes.mesh([(x, y, z) for x, z in profile for y in (0.0, 1.0)], faces)
    total = _bend(sheet)
    torch.testing.assert_close(total, torch.zeros_like(total), **tolerance(torch.float64, 8))
    other = shapes.reversed_winding(sheet)
    turned = [not torch.equal(orient(each).faces, each.faces) for each in (sheet, other)]
    assert sorted(turned) == [False, True]
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0]))
    graphs = [PrimalDualGraph.from_mesh(m) for m in (sheet, other, sheet.act(mirror))]
    for graph in graphs[1:]:
        torch.testing.assert_close(graph.x_dual, graphs[0].x_dual)


def test_walls_of_a_cavity_point_into_it() -> None:
    ball = shapes.icosphere(1)
    small = shapes.scaled(ball, 0.5)
    for inner in (small, shapes.reversed_winding(small)):
        oriented = orient(shapes.union(ball, inner))
        outer = _volume(oriented, slice(ball.num_faces))
        assert _volume(oriented, slice(ball.num_faces, None)) == pytest.approx(-outer / 8)
        assert outer > 0
    both = shapes.union(ball, shapes.moved(small, (3, 3, 3)))
    assert torch.equal(orient(both).faces, both.faces)


def test_pairs_turn_with_their_faces() -> None:
    mesh = met_again()
    assert mesh.pairs is not None
    turned = TriangleMesh(
        mesh.vertices, mesh.faces[:, [0, 2, 1]], mesh.pairs + 2 - 2 * (mesh.pairs % 3)
    )
    one, other = orient(mesh), orient(turned)
    assert torch.equal(one.faces, other.faces)
    assert torch.equal(one.pairs, other.pairs)
    mirrored = mesh.act(torch.diag(torch.tensor([1.0, 1.0, -1.0])))
    for graph in (PrimalDualGraph.from_mesh(turned), PrimalDualGraph.from_mesh(mirrored)):
        expected = PrimalDualGraph.from_mesh(mesh)
        assert torch.equal(graph.undirected, expected.undirected)
        torch.testing.assert_close(graph.x_dual, expected.x_dual)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30), st.integers(0, 2**32 - 1))
def test_points_on_a_lattice_merge_within_the_tolerance_only(
    cells: list[tuple[int, int, int]], seed: int
) -> None:
    cell = np.array(cells, np.float64).reshape(-1, 3)
    noise = np.random.default_rng(seed).uniform(-1e-10, 1e-10, cell.shape)
    expected = [cells.index(place) for place in cells]
    assert coincident_points(cell + noise, 1e-9).tolist() == expected


def test_points_merge_wherever_they_lie_and_only_true_neighbors() -> None:
    # A grid of cells would part some of these pairs, whatever its origin.
    base = np.random.default_rng(0).random((1000, 3))
    merged = coincident_points(np.concatenate([base, base + 0.9e-9]), 1e-9)
    assert merged.tolist() == [*range(1000), *range(1000)]
    apart = coincident_points(np.concatenate([base, base + np.array([1.1e-9, 0, 0])]), 1e-9)
    assert apart.tolist() == list(range(2000))
    nan = float("nan")
    points = np.array([[0.0, 0, 0], [-0.0, 0, -0.0], [nan, 0, 0], [nan, 0, 0]])
    assert coincident_points(points, 0.0).tolist() == [0, 0, 2, 3]
    assert coincident_points(np.array([[np.inf, -np.inf, 0], [0, 0, 0]]), 0.0).tolist() == [0, 1]
    far = 4e6 + base
    assert coincident_points(np.append(far, np.nextafter(far, 9e6), 0), 1e-9)[1000:].max() < 1000
    corners = np.array([[0.5, 0.5, -0.5], [-0.5, 0, -0.5], [0, 1, 0.5], [-1, 0, 0]])
    for signs in itertools.product((-1, 1), repeat=3):  # mirror images
        assert coincident_points(corners * signs, 0.5).tolist() == [0, 1, 2, 3]
    crowd = np.random.default_rng(0).random((50_000, 3)) * 5e-9
    assert not coincident_points(crowd, 1e-9).any()
    for count in (0, 1, 100_000):  # at one place, without comparing all pairs
        assert not coincident_points(np.zeros((count, 3)), 1e-9).any()
    # Along every axis the next point is closer than the tolerance, in space none is.
    side = 47
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3) * 2e-9
    tilted = lattice + lattice[:, [1, 2, 0]] * [0.31, 0.17, 0.23]
    for axis in tilted.T:
        # the tolerance that points are merged with below
        assert np.diff(np.sort(axis)).max() < 1e-9
    cloud = np.concatenate([tilted, tilted[::-1] + 1e-12])
    merged = coincident_points(cloud, 1e-9)
    count = len(lattice)
    assert merged.tolist() == [*range(count), *range(count - 1, -1, -1)]


BALL = icosphere(subdivisions=2)


def balls(*places: tuple[float, float]):
    """Balls by radius and position along an axis: points, faces, part."""
    points = [radius * BALL.vertices + [at, 0, 0] for radius, at in places]
    faces = [np.asarray(BALL.faces) + n * len(BALL.vertices) for n in range(len(places))]
    part = np.repeat(np.arange(len(places)), len(BALL.faces))
    return np.concatenate(points), np.concatenate(faces), part


def test_depth_is_the_number_of_balls_around_a_ball() -> None:
    for places, depth in (
        ([(1.0, 0.0)], [0]),
        ([(1.0, 0.0), (0.5, 0.0)], [0, 1]),
        ([(0.25, 0.0), (1.0, 0.0), (0.5, 0.0)], [2, 0, 1]),
        ([(1.0, 0.0), (0.2, 0.5), (0.2, -0.5)], [0, 1, 1]),
        ([(1.0, 0.0), (0.5, 2.0)], [0, 0]),
        ([(1.0, 0.0), (1.0, 1.0)], [0, 0]),  # they cross
    ):
        points, faces, part = balls(*places)
        closed = np.ones(len(places), bool)
        assert nesting_depth(points, faces, part, closed).tolist() == depth
        turned = faces.copy()
        turned[part == 0] = turned[part == 0][:, ::-1]  # however a part is wound
        assert nesting_depth(points, turned, part, closed).tolist() == depth


@pytest.mark.parametrize("face", range(0, 12, 2))
def test_parts_that_touch_a_wall_have_one_depth_in_every_pose(face: int) -> None:
    cube = box()
    # The first triangles of the small cube are where it is looked at, one of them on a wall.
    faces = np.concatenate([cube.faces, np.roll(cube.faces, face, axis=0) + 8])
    part, closed = np.repeat([0, 1], 12), np.ones(2, bool)
    for at, places in ((0.35, {0, 1}), (0.65, {0})):  # inside and outside of a wall
        points = np.concatenate([cube.vertices, 0.3 * cube.vertices + [at, 0.01, 0.02]])
        poses = Rotation.random(20, random_state=0)
        depths = [nesting_depth(r.apply(points), faces, part, closed).tolist() for r in poses]
        assert depths[0][1] in places
        assert depths == [[0, depths[0][1]]] * len(poses)


def test_open_parts_and_parts_beside_others_are_not_inside_and_work_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points, faces, part = balls((1.0, 0.0), (0.5, 0.0), (0.25, 0.0))
    depth = nesting_depth(points, faces, 2 * part, np.array([1, 0, 0, 0, 1], bool))
    assert depth.tolist() == [0, 0, 0, 0, 1]
    tetrahedron = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    points = np.concatenate([9.0 * np.eye(4, 3)[[3, 0, 1, 2]], 8.0 + 0.1 * np.eye(4, 3)])
    faces, part = np.concatenate([tetrahedron, tetrahedron + 4]), np.repeat([0, 1], 4)
    assert nesting_depth(points, faces, part, np.array([True, True])).tolist() == [0, 0]
    points, faces, part = balls(*((1.0 / (n + 1), 0.0) for n in range(6)))
    monkeypatch.setattr(module, "_MOST_ANGLES", 0)
    monkeypatch.setattr(module, "_ANGLES_PER_FACE", 0)
    assert not nesting_depth(points, faces, part, np.ones(6, bool)).any()


def test_depths_of_crossing_parts_do_not_depend_on_the_pose() -> None:
    random = np.random.default_rng(0)
    points, faces, part = balls(*((r, 2 * x) for r, x in random.random((8, 2))))
    closed = np.ones(8, bool)
    expected = nesting_depth(points, faces, part, closed)
    assert expected.max() > 0
    for rotation in Rotation.random(10, random_state=0):
        moved = rotation.apply(points) * [1, 1, -1]
        assert (nesting_depth(moved, faces, part, closed) == expected).all()


class _Rounds(TorchDispatchMode):
    """Count the passes over the edges: each hooks roots by one scatter."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "scatter" in str(func)
        return func(*args, **(kwargs or {}))


SIZES = st.sampled_from([1, 2, 5, 20, 60, 3000])


@given(shapes.seeds, SIZES, st.sampled_from([0.2, 0.5, 1.0, 2.0]))
def test_connected_components_are_those_of_scipy(seed, size, density):
    pairs = np.random.default_rng(seed).integers(size, size=(int(density * size), 2))
    assert connected_components(torch.as_tensor(pairs), size).tolist() == components(pairs, size)


def test_paths_take_at_most_sixteen_rounds_and_no_edges_leave_every_node_alone():
    (size,) = tier([30_000], [100_000])
    place = shapes.permutation(size, 0)
    path = torch.stack((place[:-1], place[1:]), dim=1)
    with _Rounds() as rounds:
        label = connected_components(path, size)
    assert int(label.max()) == 0
    assert 0 < rounds.count <= 16
    none = torch.zeros(0, 2, dtype=torch.int64)
    for size in (0, 3):
        assert connected_components(none, size).tolist() == list(range(size))


@pytest.mark.parametrize("seed", tier(range(1), range(3)))
def test_a_mesh_with_a_fifth_of_its_edges_contracted_takes_at_most_eight_rounds(seed):
    shape = shapes.icosphere(5)
    pairs = pairs_of_faces(shape.faces) // 3
    chosen = pairs[shapes.permutation(len(pairs), seed)[: len(pairs) // 5]]
    with _Rounds() as rounds:
        connected_components(chosen, shape.num_faces)
    assert 0 < rounds.count <= 8


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=20))
def test_ranges_follow_one_another(ranges):
    first, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [number for begin, size in ranges for number in range(begin, begin + size)]
    assert concatenate_ranges(first, sizes).tolist() == expected
