"""Orientation of a mesh that does not depend on reflections."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.geometry.connected_components import connected_components
from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.geometry.nesting_depth import nesting_depth
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh


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
    geometry = HalfEdgeGeometry.measure(mesh.vertices, mesh.faces)
    extent = geometry.length.amax() if mesh.num_faces else 0.0
    unpaired = torch.ones_like(alone)
    unpaired[pairs] = False
    open_faces = unpaired.reshape(-1, 3).any(dim=1)
    parts = int(part.max()) + 1 if len(part) else 0
    is_open = torch.zeros(parts, dtype=torch.bool, device=part.device)
    is_open[part[open_faces]] = True
    undecided = torch.ones_like(is_open)
    turned = torch.zeros_like(is_open)
    volume = _signed_volume(mesh) * _side(mesh, part, ~is_open)[part]
    measures = [(volume, geometry.area * extent, ~is_open)]
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
    return TriangleMesh(mesh.vertices, faces, given)


def _side(mesh: TriangleMesh, part: Tensor, closed: Tensor) -> Tensor:
    """Return 1 for parts around a solid and -1 for the walls of cavities, (parts,)."""
    side = torch.ones(len(closed), dtype=mesh.vertices.dtype, device=part.device)
    if len(closed) < 2:
        return side
    arrays = (x.detach().cpu().numpy() for x in (mesh.vertices, mesh.faces, part, closed))
    depth = torch.from_numpy(nesting_depth(*arrays)).to(part.device)
    return side - 2 * (depth % 2)


def _signed_volume(mesh: TriangleMesh) -> Tensor:
    """Return six times the signed volume below each face, seen from the centre of all faces."""
    corner = mesh.vertices[mesh.faces]  # vertices of no face may lie anywhere
    corner = corner - corner.mean(dim=(0, 1))
    return (torch.linalg.cross(corner[:, 0], corner[:, 1]) * corner[:, 2]).sum(-1)


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


_ROUNDING = 1e-10  # below this share of area times extent, or of the weights, a sign is rounding
