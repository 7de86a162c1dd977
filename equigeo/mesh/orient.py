"""A winding that a mirrored file does not change."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.components import connected_components
from equigeo.mesh.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.half_edges import HalfEdges
from equigeo.mesh.triangle_mesh import TriangleMesh


def orient(mesh: TriangleMesh, half_edges: HalfEdges | None = None) -> TriangleMesh:
    r"""Wind every connected part so that its normals point outwards.

    A closed part is turned until its signed volume is positive. A part with boundary has no
    outside: it is turned until its total mean curvature
    :math:`\tfrac12 \sum_e l_e (\alpha_e - \pi)` is positive, which a mirror image agrees with.
    A part where that vanishes, a flat one for instance, is left alone.

    Parameters
    ----------
    mesh : TriangleMesh
        Consistently wound.
    half_edges : HalfEdges, optional
        Of ``mesh``, if they are known already.

    Returns
    -------
    TriangleMesh
        The same faces in the same order; those of turned parts with two corners exchanged.
        ``mesh`` itself if no part is turned.

    Raises
    ------
    MeshError
        If the mesh is non-manifold or inconsistently wound.

    Equivariance
    ------------
    ``orient(mesh.act(g))`` and ``orient(mesh).act(g)`` bound the same side of space for every
    rotation, reflection, translation and scale.

    Examples
    --------
    >>> inside_out = TriangleMesh(
    ...     torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ...     torch.tensor([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]),
    ... )
    >>> orient(inside_out).faces[0].tolist()
    [0, 2, 1]
    """
    half_edges = half_edges or HalfEdges.from_faces(mesh.faces)
    pairs = half_edges.pairs()
    part = connected_components(pairs // 3, mesh.num_faces)
    geometry = HalfEdgeGeometry.measure(mesh.vertices, mesh.faces)
    volume, curvature = _signed_volume(mesh), _mean_curvature(geometry, pairs)
    extent = geometry.length.max() if mesh.num_faces else geometry.length.sum()
    open_faces = (half_edges.twin < 0).reshape(-1, 3).any(dim=1)
    parts = int(part.max()) + 1 if len(part) else 0
    is_open = torch.zeros(parts, dtype=torch.bool, device=part.device)
    is_open[part[open_faces]] = True
    measure = torch.where(is_open[part], curvature, volume)
    total = measure.new_zeros(parts).index_add(0, part, measure)
    bound = torch.where(is_open[part], geometry.length.sum(dim=1), geometry.area * extent)
    scale = measure.new_zeros(parts).index_add(0, part, bound)
    turned = total < -_ROUNDING * scale
    if not bool(turned.any()):
        return mesh
    faces = torch.where(turned[part, None], mesh.faces[:, [0, 2, 1]], mesh.faces)
    return TriangleMesh(mesh.vertices, faces)


def _signed_volume(mesh: TriangleMesh) -> Tensor:
    """Six times the volume below each face, seen from the centre of the mesh."""
    corner = (mesh.vertices - mesh.vertices.mean(dim=0))[mesh.faces]
    return (torch.linalg.cross(corner[:, 0], corner[:, 1]) * corner[:, 2]).sum(-1)


def _mean_curvature(geometry: HalfEdgeGeometry, pairs: Tensor) -> Tensor:
    """Twice the integrated mean curvature, each edge booked on its lower face."""
    bend = geometry.dihedral_angle(pairs) - torch.pi
    weighted = geometry.length.reshape(-1)[pairs[:, 0]] * bend
    return torch.zeros_like(geometry.area).index_add(0, pairs[:, 0] // 3, weighted)


_ROUNDING = 1e-10  # below this share of area times extent, or of length, a sign is rounding
