"""Subdivision at the midpoints of edges."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.geometry.connectivity import connected_components
from equigeo.mesh.geometry.half_edges import pairs_of_faces
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.simplify import simplify


def subdivide(mesh: TriangleMesh) -> TriangleMesh:
    """Divide every face into four at the midpoints of its edges; the surface is unchanged.

    Midpoints follow the given vertices. Faces ``4 f`` to ``4 f + 2`` are the corners of face ``f``,
    ``4 f + 3`` its middle: face attributes transfer by ``repeat_interleave(4)``. Faces that do not
    continue each other along an edge have separate midpoints. Raises ``MeshError`` if the mesh is
    non-manifold or inconsistently wound. Commutes with affine maps.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> subdivide(mesh).faces.tolist()
    [[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]]
    """
    check_mesh(mesh)
    pairs = pairs_of_faces(mesh.faces) if mesh.pairs is None else mesh.pairs
    faces, number = mesh.faces, mesh.num_vertices
    # An edge is a component of paired half-edges: one at a boundary, two, or more.
    edge = connected_components(pairs, faces.numel())
    start, end = faces.reshape(-1), faces.roll(-1, dims=1).reshape(-1)
    count = int(edge.max()) + 1 if len(edge) else 0
    first = torch.full((count,), len(edge), device=edge.device).scatter_reduce(
        0, edge, torch.arange(len(edge), device=edge.device), "amin"
    )
    middles = (mesh.vertices[start[first]] + mesh.vertices[end[first]]) / 2
    a, b, c = faces.unbind(1)
    ab, bc, ca = (number + edge).reshape(-1, 3).unbind(1)
    children = torch.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], dim=1)
    divided = None if mesh.pairs is None else _divided_pairs(pairs, start, mesh.num_faces)
    inputs = {name: x.repeat_interleave(4) for name, x in mesh.inputs.items()}
    vertices = torch.cat([mesh.vertices, middles])
    return TriangleMesh(vertices, children.reshape(-1, 3), divided, inputs)


def _divided_pairs(pairs: Tensor, start: Tensor, num_faces: int) -> Tensor:
    """Pair the halves of half-edges that were paired, and the sides of the faces in the middle."""
    one, other = pairs.unbind(1)
    is_opposite = start[one] != start[other]
    first, second = _half(other, False), _half(other, True)
    halves = [
        torch.stack([_half(one, False), torch.where(is_opposite, second, first)], dim=1),
        torch.stack([_half(one, True), torch.where(is_opposite, first, second)], dim=1),
    ]
    middle = 12 * torch.arange(num_faces, device=pairs.device)
    # slot 0 of the face in the middle meets slot 2 of the second corner, and so on
    inner = [torch.stack([middle + 9 + k, middle + m], dim=1) for k, m in enumerate((5, 6, 1))]
    return torch.cat([*halves, *inner])


def _half(half_edges: Tensor, is_second: bool) -> Tensor:
    """Return the half-edge of either half: side k of the corner at its start or its end."""
    face, side = half_edges // 3, half_edges % 3
    corner = (side + 1) % 3 if is_second else side
    return 3 * (4 * face + corner) + side


def with_resolution(
    mesh: TriangleMesh,
    factor: float,  # in (0, 4]
    generator: torch.Generator | None = None,
) -> TriangleMesh:
    """Simplify or subdivide a mesh to about ``factor`` times its number of faces."""
    if not 0 < factor <= 4:
        raise ValueError(f"factor must be positive and at most 4, got {factor}")
    fine = subdivide(mesh) if factor > 1 else mesh
    wanted = min(max(round(factor * mesh.num_faces), 1), fine.num_faces)
    return simplify(fine, wanted, generator, exact=False)
