"""Meshes with known answers, and hypothesis strategies that draw meshes of every kind."""

import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from torch import Tensor

from equigeo.mesh import DualKind, TriangleMesh
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.repair.repair import repair_mesh


def mesh(vertices: object, faces: object) -> TriangleMesh:
    return TriangleMesh(
        torch.as_tensor(np.asarray(vertices, dtype=np.float64)),
        torch.as_tensor(np.asarray(faces, dtype=np.int64).reshape(-1, 3)),
    )


def hull(points: object) -> TriangleMesh:
    """Convex hull of points in convex position, wound outwards."""
    points = np.asarray(points, dtype=np.float64)
    faces = ConvexHull(points).simplices
    inside_out = np.linalg.det((points - points.mean(axis=0))[faces]) < 0
    faces[inside_out] = faces[inside_out][:, [0, 2, 1]]
    return mesh(points, faces)


def tetrahedron() -> TriangleMesh:
    return hull([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def octahedron() -> TriangleMesh:
    return hull(np.concatenate((np.eye(3), -np.eye(3))))


def icosahedron() -> TriangleMesh:
    golden = (1 + math.sqrt(5)) / 2
    corners = [(0, a, b * golden) for a, b in itertools.product((-1, 1), repeat=2)]
    return hull([np.roll(corner, shift) for corner in corners for shift in range(3)])


def cube() -> TriangleMesh:
    """Unit cube; the six squares are halved by diagonals."""
    corners = list(itertools.product((0, 1), repeat=3))  # corner xyz has the number 4x + 2y + z
    squares = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [half for a, b, c, d in squares for half in ((a, b, c), (a, c, d))]
    return mesh(corners, faces)


def icosphere(subdivisions: int) -> TriangleMesh:
    """Unit sphere of ``20 * 4**subdivisions`` faces."""
    start = icosahedron()
    vertices, faces = start.vertices.numpy(), start.faces.numpy()
    vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    for _ in range(subdivisions):
        ends = np.sort(np.stack((faces, np.roll(faces, -1, axis=1)), axis=-1), axis=-1)
        edges, middle = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
        middle = middle.reshape(-1, 3) + len(vertices)
        points = vertices[edges].sum(axis=1)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        vertices = np.concatenate((vertices, points))
        corners = [np.stack((faces[:, k], middle[:, k], middle[:, k - 1]), 1) for k in range(3)]
        faces = np.concatenate((*corners, middle))
    return mesh(vertices, faces)


def torus(major: int = 12, minor: int = 8) -> TriangleMesh:
    """Torus over a grid of quads, each halved."""
    i, j = np.meshgrid(np.arange(major), np.arange(minor), indexing="ij")
    u, v = 2 * math.pi * i / major, 2 * math.pi * j / minor
    ring = 1 + 0.4 * np.cos(v)
    points = np.stack((ring * np.cos(u), ring * np.sin(u), 0.4 * np.sin(v)), axis=-1)

    def number(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a % major) * minor + b % minor

    corner = [number(i, j), number(i + 1, j), number(i + 1, j + 1), number(i, j + 1)]
    faces = [np.stack([corner[k] for k in half], -1) for half in ((0, 1, 2), (0, 2, 3))]
    return mesh(points.reshape(-1, 3), np.stack(faces, axis=2).reshape(-1, 3))


_S = math.sqrt(3)
_STRIP_VERTICES = (
    (0, _S, 0), (1, _S, 0), (2, _S, 0), (0.5, _S / 2, 0),
    (1.5, _S / 2, 0), (0, 0, 0), (1, 0, 0), (2, 0, 0),
)  # fmt: skip
_STRIP_FACES = (
    (0, 3, 1), (3, 4, 1), (1, 4, 2), (2, 4, 7), (6, 7, 4), (3, 6, 4), (5, 6, 3), (0, 5, 3),
)  # fmt: skip
CLOSED_STRIP_EDGES = [
    (0, 1), (0, 7), (0, 10), (1, 2), (1, 5), (2, 3), (2, 9), (3, 4), (3, 8), (4, 5), (4, 13),
    (5, 6), (6, 7), (6, 12), (7, 11), (8, 9), (8, 13), (9, 10), (10, 11), (11, 12), (12, 13),
]  # fmt: skip


def strip() -> TriangleMesh:
    """Eight flat triangles around an interior edge, with a boundary of six edges."""
    return mesh(_STRIP_VERTICES, _STRIP_FACES)


def closed_strip() -> TriangleMesh:
    """The strip with a roof: 14 faces without boundary."""
    roof = ((2, 7, 8), (2, 8, 1), (1, 8, 0), (0, 8, 5), (5, 8, 6), (6, 8, 7))
    return mesh((*_STRIP_VERTICES, (1.5, _S / 2, 1)), (*_STRIP_FACES, *roof))


def two_faces(angle: float) -> TriangleMesh:
    """An isosceles and an equilateral triangle that meet at ``angle`` radians."""
    height = _S / 2
    apex = (0.5, height * math.cos(angle), height * math.sin(angle))
    return mesh([(0, 0, 0), (1, 0, 0), (0.5, _S, 0), apex], [(0, 1, 2), (0, 3, 1)])


def triangle() -> TriangleMesh:
    """One face with sides 3, 5, 4."""
    return mesh([(0, 0, 0), (3, 0, 0), (0, 4, 0)], [(0, 1, 2)])


def two_isolated() -> TriangleMesh:
    """Two faces that share nothing."""
    return union(triangle(), moved(triangle(), (9, 1, 2)))


def pillow() -> TriangleMesh:
    """Two triangles glued along all three edges."""
    return mesh([(0, 0, 0), (3, 0, 0), (0, 4, 0)], [(0, 1, 2), (0, 2, 1)])


def bowl() -> TriangleMesh:
    """Half of a distorted sphere: open, curved, without any symmetry."""
    sphere = lumpy(icosphere(2), seed=5)
    centre = sphere.vertices[sphere.faces].mean(dim=1)
    return mesh(sphere.vertices, sphere.faces[centre[:, 2] > 0.1])


def sponge() -> TriangleMesh:
    """Block with deep pits: closed, and so hollow that its total mean curvature is negative."""
    solid = np.ones((9, 9, 3), dtype=bool)
    solid[1::2, 1::2, 1:] = False
    padded = np.pad(solid, 1)
    corners, faces = [], []
    for axis, side in itertools.product(range(3), (0, 1)):
        outside = np.roll(padded, 1 - 2 * side, axis) < padded
        along = np.eye(3, dtype=int)[[(axis + 1) % 3, (axis + 2) % 3]]
        u, v = along if side else along[::-1]
        for cell in np.argwhere(outside):
            first = cell + side * np.eye(3, dtype=int)[axis]
            a, b, c, d = range(len(corners), len(corners) + 4)
            corners += [first, first + u, first + u + v, first + v]
            faces += [(a, b, c), (a, c, d)]
    points, number = np.unique(np.array(corners), axis=0, return_inverse=True)
    return mesh(points, number.reshape(-1)[np.array(faces)])


# Around each end of the edge from 0 to 1, faces lead from one sheet to the other, so that neither
# end is split.
_POINTS = [
    *([0, 0, 0], [0, 0, 1], [1, 0.3, 0.5], [1, -0.3, 0.5], [-1, 0.3, 0.5], [-1, -0.3, 0.5]),
    *([1, 0, -0.5], [1, 0, 1.5]),
]
_SHEETS = [[0, 1, 2], [1, 0, 3], [0, 1, 4], [1, 0, 5]]
_AROUND = [[0, 2, 6], [0, 6, 3], [1, 7, 2], [1, 3, 7]]


def repair(file: FileMesh, **options) -> SimpleNamespace:
    """The mesh and the report of a repair, as arrays."""
    found = [vars(part) for part in repair_mesh(Path("file"), file, **options)]
    named = (found[0] | found[1]).items()
    return SimpleNamespace(**{k: x.numpy() if isinstance(x, Tensor) else x for k, x in named})


def repaired_again() -> SimpleNamespace:
    """Eight faces, four of which run along one edge: 0 continues 2, and 1 continues 3."""
    faces = np.array(_SHEETS + _AROUND)
    return repair(FileMesh(np.array(_POINTS, float), faces.ravel(), np.full(8, 3)))


def met_again() -> TriangleMesh:
    """The same as a mesh."""
    repaired = repaired_again()
    return TriangleMesh(repaired.vertices, repaired.faces, repaired.pairs)


def lumpy(shape: TriangleMesh, seed: int = 0, amount: float = 0.08) -> TriangleMesh:
    """Distort a mesh so that no symmetry, mirror symmetry included, is left."""
    noise = np.random.default_rng(seed).normal(size=tuple(shape.vertices.shape))
    return TriangleMesh(shape.vertices + amount * torch.as_tensor(noise), shape.faces)


def random_hull(seed: int, vertices: int) -> TriangleMesh:
    """Closed genus 0 with ``2 * vertices - 4`` faces, on an ellipsoid."""
    points = np.random.default_rng(seed).normal(size=(vertices, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return hull(points * (1.0, 1.3, 0.7))


def union(*parts: TriangleMesh) -> TriangleMesh:
    faces, start = [], 0
    for part in parts:
        faces.append(part.faces + start)
        start += part.num_vertices
    return TriangleMesh(torch.cat([part.vertices for part in parts]), torch.cat(faces))


def without_faces(shape: TriangleMesh, removed: list[int]) -> TriangleMesh:
    kept = torch.ones(shape.num_faces, dtype=torch.bool)
    kept[removed] = False
    return TriangleMesh(shape.vertices, shape.faces[kept])


def moved(shape: TriangleMesh, by: tuple[float, float, float]) -> TriangleMesh:
    return TriangleMesh(shape.vertices + torch.tensor(by, dtype=torch.float64), shape.faces)


def scaled(shape: TriangleMesh, factor: float) -> TriangleMesh:
    return TriangleMesh(factor * shape.vertices, shape.faces)


def mirrored(shape: TriangleMesh) -> TriangleMesh:
    """Reflect the positions and keep the faces."""
    return shape.act(torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)))


def turned(shape: TriangleMesh, seed: int = 1) -> TriangleMesh:
    """Rotate by a random rotation."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return shape.act(torch.as_tensor(q * np.linalg.det(q)))


def reversed_winding(shape: TriangleMesh) -> TriangleMesh:
    return TriangleMesh(shape.vertices, shape.faces[:, [0, 2, 1]])


def renumbered_faces(shape: TriangleMesh, order: Tensor) -> TriangleMesh:
    """Put face ``order[i]`` at place ``i``."""
    return TriangleMesh(shape.vertices, shape.faces[order])


def renumbered_vertices(shape: TriangleMesh, order: Tensor) -> TriangleMesh:
    """Put vertex ``order[i]`` at place ``i``."""
    return TriangleMesh(shape.vertices[order], torch.argsort(order)[shape.faces])


def shifted_corners(shape: TriangleMesh, shifts: Tensor) -> TriangleMesh:
    """Start each face ``f`` at its corner ``shifts[f]``."""
    corner = (torch.arange(3) + shifts[:, None]) % 3
    return TriangleMesh(shape.vertices, shape.faces.gather(1, corner))


def permutation(size: int, seed: int) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).permutation(size))


def _kind(name: str, seed: int, size: int) -> TriangleMesh:
    closed = random_hull(seed, size)
    if name == "sphere":
        return closed
    if name == "torus":
        return lumpy(torus(3 + size % 4, 3 + seed % 3), seed, 0.05)
    if name == "open":
        count = 1 + seed % (closed.num_faces // 2)
        return without_faces(closed, permutation(closed.num_faces, seed)[:count].tolist())
    if name == "isolated face":
        return union(closed, moved(triangle(), (5, 0, 0)))
    return union(closed, moved(lumpy(torus(4, 3), seed, 0.05), (5, 0, 0)))


KINDS = ("sphere", "torus", "open", "isolated face", "two parts")
seeds, kinds = st.integers(0, 2**31 - 1), st.sampled_from(list(DualKind))


@st.composite
def meshes(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> TriangleMesh:
    """Manifold meshes in general position, their faces and vertices in random order."""
    shape = _kind(draw(st.sampled_from(kinds)), draw(seeds), draw(st.integers(4, 16)))
    shape = renumbered_faces(shape, permutation(shape.num_faces, draw(seeds)))
    return renumbered_vertices(shape, permutation(shape.num_vertices, draw(seeds)))
