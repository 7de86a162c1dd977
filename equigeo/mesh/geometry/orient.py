"""Orientation of a mesh that does not depend on reflections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo.graphs.edge_index import Shift
from equigeo.mesh.geometry.connectivity import concatenate_ranges, connected_components
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry, edge_pairs
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh, check_vectors

# A second of work each: pairs of boxes compared, of the largest ones with all, and solid angles
# summed, of parts with few faces first, or these for each face. What is beyond is not nested.
_MOST_BOXES = 20_000_000
_MOST_ANGLES = 5_000_000
_ANGLES_PER_FACE = 16
_AT_ONCE = 500_000

# Share of the sphere around a point that a closed surface covers: 1 inside, 1/2 on a wall, 7/8
# behind a corner that juts in.
_ALL_AROUND = 0.98
_FLAT = 1e-9  # of the product of three lengths: far above rounding
_SAME_AREA = 1e-9  # of the largest: far above rounding
_SAMPLES = 4  # points of a part: the middles of its largest faces
_ROUNDING = 1e-10  # below this share of area times extent, or of the weights, a sign is rounding


def orient(
    mesh: TriangleMesh,
    pairs: Tensor | None = None,  # `edge_pairs` of the mesh, if known
) -> TriangleMesh:
    """Return the mesh with outward normals in every part; ``mesh`` itself if none is turned."""
    # Closed parts get positive signed volume; walls of cavities, which are inside an odd number of
    # closed parts, negative. Open parts get positive total mean curvature, sum_e l_e (alpha_e - pi)
    # over 2, which is invariant to reflection; where it vanishes, the bends weighted by area, and
    # then by their squares, decide. If all vanish, the part is flat or its sides look the same.
    check_mesh(mesh)
    pairs = edge_pairs(mesh) if pairs is None else pairs
    # Where more than two faces meet, or two in the same direction, parts end.
    start = mesh.faces.reshape(-1)
    alone = torch.bincount(pairs.reshape(-1), minlength=len(start)) == 1
    pairs = pairs[alone[pairs].all(dim=1) & (start[pairs[:, 0]] != start[pairs[:, 1]])]
    part = connected_components(pairs // 3, mesh.num_faces)
    unpaired = torch.ones_like(alone)
    unpaired[pairs] = False
    open_faces = unpaired.reshape(-1, 3).any(dim=1)
    parts = int(part.max()) + 1 if len(part) else 0
    is_open = torch.zeros(parts, dtype=torch.bool, device=part.device)
    is_open[part[open_faces]] = True
    undecided = torch.ones_like(is_open)
    turned = torch.zeros_like(is_open)
    volume, bound = _signed_volume(mesh)
    measures = [(volume * _side(mesh, part, ~is_open)[part], bound, ~is_open)]
    if bool(is_open.any()):
        geometry = HalfEdgeGeometry.measure(mesh.vertices, mesh.faces)
        measures += [(*bends, is_open) for bends in _bends(geometry, pairs)]
    # Each measure is an integral over a part that changes sign with its winding, and the bound is
    # the same integral without cancellation. The first measure above rounding decides.
    for measure, bound, applies in measures:
        total = measure.new_zeros(parts).index_add(0, part, measure)
        scale = measure.new_zeros(parts).index_add(0, part, bound)
        decided = undecided & applies & (total.abs() > _ROUNDING * scale)
        turned |= decided & (total < 0)
        undecided &= ~decided
    if not bool(turned.any()):
        return mesh
    faces = torch.where(turned[part, None], mesh.faces[:, [0, 2, 1]], mesh.faces)
    given = mesh.pairs
    if given is not None:
        # The half-edges of a turned face follow each other the other way round.
        given = torch.where(turned[part[given // 3]], given + 2 - 2 * (given % 3), given)
    return TriangleMesh(mesh.vertices, faces, given, mesh.inputs)


def _side(mesh: TriangleMesh, part: Tensor, closed: Tensor) -> Tensor:
    """Return 1 for parts around a solid and -1 for the walls of cavities, (parts,)."""
    side = torch.ones(len(closed), dtype=mesh.vertices.dtype, device=part.device)
    if len(closed) < 2:
        return side
    arrays = (x.detach().cpu().numpy() for x in (mesh.vertices, mesh.faces, part, closed))
    depth = torch.from_numpy(nesting_depth(*arrays)).to(part.device)
    return side - 2 * (depth % 2)


def _signed_volume(mesh: TriangleMesh) -> tuple[Tensor, Tensor]:
    """Return six times the signed volume below each face, and its area times the longest edge."""
    # Some faces at a time: for a million, most of the time would go into new memory.
    parts = mesh.faces.split(_AT_ONCE // 16)
    # Seen from the center of all faces: vertices of no face may lie anywhere.
    sums = torch.stack([mesh.vertices[faces].sum(dim=(0, 1)) for faces in parts])
    center = sums.sum(dim=0) / max(mesh.faces.numel(), 1)
    volume, area, longest = [], [], [sums.new_zeros(1)]
    for faces in parts:
        corner = mesh.vertices[faces] - center
        one, two = (corner[:, k] - corner[:, 0] for k in (1, 2))
        normal = torch.linalg.cross(one, two)
        volume.append((corner[:, 0] * normal).sum(dim=1))
        area.append(torch.linalg.vector_norm(normal, dim=1) / 2)
        edges = torch.stack((one, two, two - one))
        longest.append(torch.linalg.vector_norm(edges, dim=2).amax(dim=0))
    return torch.cat(volume), torch.cat(area) * torch.cat(longest).amax()


def _bends(geometry: HalfEdgeGeometry, pairs: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return sums that change sign with the winding, per lower face, each with its magnitude."""
    face, other = pairs[:, 0] // 3, pairs[:, 1] // 3
    bend = geometry.dihedral_angle(pairs) - torch.pi
    length = geometry.length.reshape(-1)[pairs[:, 0]]
    area = geometry.area[face] + geometry.area[other]
    sure = geometry.sureness[face] * geometry.sureness[other]

    # Total mean curvature is the sum of length times bend, by Steiner's formula for polyhedra.
    def on_face(x: Tensor) -> Tensor:
        return torch.zeros_like(geometry.area).index_add(0, face, x)

    weights = (length * sure, area * sure, length * sure * bend.square())
    # A sum far below its magnitude has the sign of rounding errors.
    return [(on_face(w * bend), on_face(w)) for w in weights]


def area_vectors(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3)
) -> NDArray[np.float64]:
    """Return the normal of each face times twice its area, (3, faces)."""
    # Some faces at a time and axis by axis: most of the time of one np.cross goes into new memory.
    across = np.empty((3, len(faces)))
    for begin in range(0, len(faces), _AT_ONCE // 16):
        some = slice(begin, begin + _AT_ONCE // 16)
        a, b, c = (points[corner].T for corner in faces[some].T)
        x, y = np.ascontiguousarray(b - a), np.ascontiguousarray(c - a)
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            across[i, some] = x[j] * y[k] - x[k] * y[j]
    return across


def nesting_depth(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3) consistently wound per part
    part: NDArray[np.int64],  # (faces,)
    closed: NDArray[np.bool_],  # (parts,) parts without boundary
) -> NDArray[np.int64]:
    """Count the closed parts that contain each closed part; 0 for open parts, (parts,)."""
    # A part lies inside another if the other's faces cover the whole sphere, seen from sample
    # points. Solid angles: Van Oosterom and Strackee, "The solid angle of a plane triangle", 1983.
    depth = np.zeros(len(closed), np.int64)
    if closed.sum() < 2:
        return depth
    by_part = np.argsort(part, kind="stable")
    start = np.searchsorted(part[by_part], np.arange(len(closed) + 1))
    corner = points[faces[by_part]]
    used = np.flatnonzero(closed & (np.diff(start) > 0))
    samples = _samples(corner, start)
    inner, outer = _candidates(corner, start, samples, used)
    budget = max(_MOST_ANGLES, _ANGLES_PER_FACE * len(faces))
    # Each further sample is tested only where all previous ones are inside.
    for n in range(_SAMPLES):
        size = np.diff(start)[outer]
        order = np.argsort(size, kind="stable")
        order = order[np.cumsum(size[order]) <= budget]
        inner, outer, size = inner[order], outer[order], size[order]
        budget -= int(size.sum())
        inside = _is_inside(samples[inner, n], corner, start[outer], size)
        inner, outer = inner[inside], outer[inside]
    return np.bincount(inner, minlength=len(closed))


def _samples(corner: NDArray[np.float64], start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sample points of each part, (parts, samples, 3), the last repeated in small parts."""
    size = np.diff(start)
    area = np.linalg.norm(
        np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1
    )
    # Rounded, so that faces of equal area keep their order in every pose.
    area = np.round(area / (_SAME_AREA * area.max(initial=0.0) or 1.0))
    by_area = np.lexsort((-area, np.repeat(np.arange(len(size)), size)))
    place = start[:-1, None] + np.minimum(np.arange(_SAMPLES), size[:, None] - 1)
    return corner[by_area[place.clip(0)]].mean(2)


def _candidates(
    corner: NDArray[np.float64],
    start: NDArray[np.int64],
    samples: NDArray[np.float64],
    used: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of parts where the samples of one lie within the bounding box of the other."""
    filled = np.flatnonzero(np.diff(start))
    boxes = np.searchsorted(filled, used)
    low = np.minimum.reduceat(corner.min(1), start[filled])[boxes]
    high = np.maximum.reduceat(corner.max(1), start[filled])[boxes]
    first, last = samples[used].min(1), samples[used].max(1)
    largest = np.argsort(-np.linalg.norm(high - low, axis=1), kind="stable")
    inner, outer = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for n in largest[: max(1, _MOST_BOXES // len(used))]:
        held = (low[n] < first).all(1) & (last < high[n]).all(1)
        held[n] = False
        inner.append(np.flatnonzero(held))
        outer.append(np.full(len(inner[-1]), n))
    return used[np.concatenate(inner)], used[np.concatenate(outer)]


def _is_inside(
    seen: NDArray[np.float64],
    corner: NDArray[np.float64],
    first: NDArray[np.int64],
    size: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return whether face ranges cover the whole sphere seen from each point, (points,)."""
    covered = np.zeros(len(seen))
    pair = np.repeat(np.arange(len(seen)), size)
    face = concatenate_ranges(first, size)
    for begin in range(0, len(face), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        angle = _solid_angle(corner[face[some]] - seen[pair[some], None])
        covered += np.bincount(pair[some], angle, len(seen))
    return abs(covered) > _ALL_AROUND * 4 * np.pi


def _solid_angle(corner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the signed solid angle of triangles seen from the origin."""
    a, b, c = corner.transpose(1, 0, 2)
    la, lb, lc = np.linalg.norm(corner, axis=2).T
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = ((x * y).sum(1) for x, y in ((a, b), (b, c), (c, a)))
    angle = 2 * np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb)
    # In the plane of a triangle it covers nothing or a half, and rounding would choose the side.
    return np.where(abs(volume) > _FLAT * la * lb * lc, angle, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Surface:
    """Positions, faces and shared edges of one mesh or of a batch of meshes."""

    vertices: Tensor  # (vertices, 3) float64
    faces: Tensor  # (faces, 3)
    pairs: Tensor  # (pairs, 2) twin half-edges, lower face first, sorted by faces
    pair_to_edge: Tensor  # (pairs,): two faces with two shared edges have one adjacency
    vertex_batch: Tensor  # (vertices,)
    face_batch: Tensor  # (faces,)
    num_meshes: int = 1
    inputs: Tensor | None = None  # (faces, names)

    __repr__ = brief_repr

    @classmethod
    def from_mesh(
        cls, mesh: TriangleMesh, pairs: Tensor | None = None, inputs: Sequence[str] = ()
    ) -> Surface:
        """Build a surface with inputs from a mesh and, if known, its :func:`edge_pairs`."""
        check_vectors(inputs, mesh.inputs)
        missing = [name for name in inputs if name not in mesh.inputs]
        if missing:
            raise ValueError(
                f"the mesh has no input {', '.join(map(repr, missing))}, but "
                f"{', '.join(mesh.inputs) or 'none'}; load_mesh(inputs=...) reads properties, and "
                "TriangleMesh(inputs=...) takes arrays"
            )
        # Pairs are sorted by their two faces, so that several edges of two faces follow each other
        # and an adjacency begins wherever the faces change.
        pairs = edge_pairs(mesh) if pairs is None else pairs
        adjacent = pairs // 3
        differs = (adjacent[1:] != adjacent[:-1]).any(dim=1)
        pair_to_edge = torch.zeros(len(pairs), dtype=torch.int64, device=pairs.device)
        torch.cumsum(differs, dim=0, out=pair_to_edge[1:])
        return cls(
            vertices=mesh.vertices,
            faces=mesh.faces,
            pairs=pairs,
            pair_to_edge=pair_to_edge,
            vertex_batch=mesh.faces.new_zeros(mesh.num_vertices),
            face_batch=mesh.faces.new_zeros(mesh.num_faces),
            inputs=torch.stack([mesh.inputs[x] for x in inputs], dim=1) if inputs else None,
        )

    @classmethod
    def batch(cls, parts: Sequence[Surface]) -> Surface:
        """Return the disjoint union with shifted vertex, face and edge indices."""
        inputs = [part.inputs for part in parts if part.inputs is not None]
        vertices = Shift([len(part.vertices) for part in parts])
        half_edges = Shift([part.faces.numel() for part in parts])
        edges = Shift([part.num_edges for part in parts])
        meshes = Shift([part.num_meshes for part in parts])
        return cls(
            vertices=torch.cat([part.vertices for part in parts]),
            faces=vertices.join([part.faces for part in parts]),
            pairs=half_edges.join([part.pairs for part in parts]),
            pair_to_edge=edges.join([part.pair_to_edge for part in parts]),
            vertex_batch=meshes.join([part.vertex_batch for part in parts]),
            face_batch=meshes.join([part.face_batch for part in parts]),
            num_meshes=meshes.total,
            inputs=torch.cat(inputs) if inputs else None,
        )

    @property
    def num_edges(self) -> int:
        """Number of adjacent pairs of faces."""
        return int(self.pair_to_edge[-1]) + 1 if len(self.pair_to_edge) else 0

    def edges(self) -> Tensor:
        """Return sorted adjacent pairs of faces (num_edges, 2), lower face first."""
        first = torch.ones(len(self.pairs), dtype=torch.bool, device=self.pairs.device)
        first[1:] = self.pair_to_edge[1:] != self.pair_to_edge[:-1]
        return self.pairs[first] // 3

    def mean_over_edges(
        self,
        x: Tensor,  # (pairs, channels)
    ) -> Tensor:
        """Average rows of twin pairs over the edges that two faces share, (num_edges, channels)."""
        size = self.num_edges
        if size == len(self.pairs):
            return x
        total = x.new_zeros(size, x.shape[1]).index_add(0, self.pair_to_edge, x)
        return total / torch.bincount(self.pair_to_edge, minlength=size)[:, None]

    def jitter(
        self,
        scale: float,  # standard deviation in mean edge lengths
        generator: torch.Generator | None = None,
    ) -> Surface:
        """Move every vertex by a normal deviate."""
        corner = self.vertices[self.faces]
        length = torch.linalg.vector_norm(corner.roll(-1, dims=1) - corner, dim=-1).mean(dim=1)
        total = length.new_zeros(self.num_meshes).index_add(0, self.face_batch, length)
        mean = total / torch.bincount(self.face_batch, minlength=self.num_meshes).clamp_min(1)
        # Drawn in float32 on the CPU: the same numbers whatever the dtype and the device.
        noise = torch.randn(self.vertices.shape, generator=generator, dtype=torch.float32)
        step = (scale * mean)[self.vertex_batch, None] * noise.to(self.vertices)
        return replace(self, vertices=self.vertices + step)

    def stretch(
        self,
        scale: float,  # standard deviation of the diagonal of S before its trace is removed
        generator: torch.Generator | None = None,
    ) -> Surface:
        """Multiply the positions of every mesh by exp(S), S a random symmetric traceless matrix."""
        factors = random_stretches(self.num_meshes, scale, generator, self.vertices)
        moved = torch.einsum("nij,nj->ni", factors[self.vertex_batch], self.vertices)
        return replace(self, vertices=moved)

    def to(self, device: torch.device | str) -> Surface:
        """Move positions and indices to a device."""
        moved: dict[str, Any]
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)


def random_stretches(
    count: int,
    scale: float,  # as in `Surface.stretch`
    generator: torch.Generator | None,
    like: Tensor,  # dtype and device
) -> Tensor:
    """Draw symmetric positive matrices of determinant 1, (count, 3, 3)."""
    # As in jitter, the same numbers whatever the dtype and the device.
    # No trace: volumes are unchanged. The distribution is isotropic.
    drawn = torch.randn(count, 3, 3, generator=generator, dtype=torch.float32)
    # Independent entries of the same deviation, made symmetric: those on the diagonal keep it,
    # the mean of two others has one that is smaller by the square root of 2.
    symmetric = scale * (drawn + drawn.mT).to(like) / 2
    trace = symmetric.diagonal(dim1=1, dim2=2).mean(dim=1)
    identity = torch.eye(3, dtype=symmetric.dtype, device=symmetric.device)
    return torch.linalg.matrix_exp(symmetric - trace[:, None, None] * identity)
