"""Defects of scans: a hole, noise on the vertices, a floating piece."""

from __future__ import annotations

import math
from numbers import Real
from types import NoneType
from typing import Final

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.checks import kind_of
from equigeo.mesh.geometry.half_edges import edge_pairs, pairs_of_faces
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh

LARGEST: Final = {"hole": 0.4, "noise": 0.5, "debris": 0.04}  # of :func:`random_damage`

# Corners of an icosahedron of diameter 1, and its faces, outwards.
_GOLDEN = (1 + math.sqrt(5)) / 2
_CORNERS = [
    [-1, _GOLDEN, 0], [1, _GOLDEN, 0], [-1, -_GOLDEN, 0], [1, -_GOLDEN, 0],
    [0, -1, _GOLDEN], [0, 1, _GOLDEN], [0, -1, -_GOLDEN], [0, 1, -_GOLDEN],
    [_GOLDEN, 0, -1], [_GOLDEN, 0, 1], [-_GOLDEN, 0, -1], [-_GOLDEN, 0, 1],
]  # fmt: skip
_FACES = [
    [0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11],
    [1, 5, 9], [5, 11, 4], [11, 10, 2], [10, 7, 6], [7, 1, 8],
    [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9],
    [4, 9, 5], [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1],
]  # fmt: skip


def damage(
    mesh: TriangleMesh,
    *,
    hole: float = 0.0,
    noise: float = 0.0,
    debris: float = 0.0,
    generator: torch.Generator | None = None,
) -> TriangleMesh:
    """Damage a mesh as scans are damaged, to train on or to test with.

    Parameters
    ----------
    mesh : TriangleMesh
    hole : float
        Share in [0, 1) of the faces to remove: those nearest to a random face along the surface,
        then those of other components by their distance. At least one face is left. Vertices stay.
    noise : float
        Standard deviation of normal noise on every coordinate, over the mean length of an edge.
    debris : float
        Diameter of a floating icosahedron, over the diagonal of the bounding box of the faces, in
        which its center lies at random. Its 20 faces follow those of the mesh, with inputs 0.
    generator : torch.Generator, optional
        On the CPU (default: that of PyTorch).

    Returns
    -------
    TriangleMesh

    Raises
    ------
    TypeError, ValueError
        If an amount is no number, out of range or not finite.
    MeshError
        If the mesh is non-manifold or inconsistently wound, and gets a hole.

    Examples
    --------
    >>> import trimesh
    >>> shape = TriangleMesh.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    >>> damage(shape, hole=0.1, debris=0.02).num_faces - shape.num_faces
    -12
    """
    check_mesh(mesh)
    amounts = {"hole": (hole, 1.0), "noise": (noise, math.inf), "debris": (debris, math.inf)}
    for name, (amount, limit) in amounts.items():
        if not isinstance(amount, Real):
            raise TypeError(f"{name} must be a number, got {kind_of(amount)}")
        if not 0 <= amount < limit:
            raise ValueError(f"{name} must be in [0, {limit:g}), got {amount}")
    if not isinstance(generator, (torch.Generator, NoneType)):
        raise TypeError(f"generator must be a torch.Generator, got {kind_of(generator)}")
    if not mesh.num_faces:
        return mesh
    corner = mesh.vertices.detach()[mesh.faces]
    # Amounts over the undamaged mesh; what is drawn depends on no other amount.
    edge = torch.linalg.vector_norm(corner - corner.roll(1, dims=1), dim=2).mean()
    low, high = corner.amin(dim=(0, 1)), corner.amax(dim=(0, 1))
    first = int(torch.randint(mesh.num_faces, (), generator=generator))
    place = torch.rand(3, generator=generator, dtype=torch.float64).to(low)
    moves = torch.randn(mesh.vertices.shape, generator=generator, dtype=torch.float64).to(low)

    if hole:
        mesh = _with_hole(mesh, first, hole)
    vertices, faces, pairs = mesh.vertices + noise * edge * moves, mesh.faces, mesh.pairs
    inputs = mesh.inputs
    if debris:
        piece_faces = faces.new_tensor(_FACES)
        corners = vertices.new_tensor(_CORNERS)
        radius = debris * torch.linalg.vector_norm(high - low) / 2
        piece = low + place * (high - low) + radius * corners / corners[0].norm()
        if pairs is not None:
            pairs = torch.cat([pairs, pairs_of_faces(piece_faces) + 3 * len(faces)])
        faces = torch.cat([faces, piece_faces + len(vertices)])
        vertices = torch.cat([vertices, piece])
        inputs = {name: torch.cat([x, x.new_zeros(len(_FACES))]) for name, x in inputs.items()}
    return TriangleMesh(vertices, faces, pairs, inputs)


def random_damage(mesh: TriangleMesh, generator: torch.Generator | None = None) -> TriangleMesh:
    """Apply each kind of damage with probability 1/2, of an amount uniform up to ``LARGEST``."""
    drawn = torch.rand(2, len(LARGEST), generator=generator, dtype=torch.float64)
    amounts = drawn[0] * (drawn[1] < 0.5) * torch.tensor([*LARGEST.values()], dtype=torch.float64)
    given = dict(zip(LARGEST, amounts.tolist(), strict=True))
    return damage(mesh, **given, generator=generator)


def _with_hole(mesh: TriangleMesh, first: int, share: float) -> TriangleMesh:
    """Remove the faces nearest to one, by a path through centers of adjacent faces."""
    number = mesh.num_faces
    pairs = edge_pairs(mesh)
    # Once each: the matrix adds up repeated entries, and faces may share two edges.
    start, end = np.unique((pairs // 3).cpu().numpy(), axis=0).T
    center = mesh.vertices.detach()[mesh.faces].mean(dim=1).cpu().numpy()
    # Faces of one center are adjacent, too: the search omits lengths of zero.
    length = np.linalg.norm(center[start] - center[end], axis=1).clip(1e-300)
    matrix = scipy.sparse.csr_matrix((length, (start, end)), shape=(number, number))
    away = scipy.sparse.csgraph.dijkstra(matrix, directed=False, indices=first)
    order = np.lexsort((np.linalg.norm(center - center[first], axis=1), away))
    order = order[min(round(share * number), number - 1) :]
    left = torch.from_numpy(np.sort(order)).to(mesh.faces.device)
    kept = None if mesh.pairs is None else _renumbered(pairs, left, number)
    inputs = {name: x[left] for name, x in mesh.inputs.items()}
    return TriangleMesh(mesh.vertices, mesh.faces[left], kept, inputs)


def _renumbered(pairs: Tensor, left: Tensor, number: int) -> Tensor:
    """Return the pairs of half-edges among the faces that are left."""
    face = torch.full((number,), -1, device=left.device)
    face[left] = torch.arange(len(left), device=left.device)
    found = face[pairs // 3]
    return (3 * found + pairs % 3)[(found >= 0).all(dim=1)]
