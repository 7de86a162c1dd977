"""Transformed copies of meshes for tests of invariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from equigeo.mesh import TriangleMesh
from equigeo.tasks.measures.random_orthogonal import random_orthogonal
from equigeo.training.random_state import derived_generator

MESH_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "re-indexed", "all of these")


def random_copy(mesh: TriangleMesh, kind: str, generator: torch.Generator) -> TriangleMesh:
    """Draw a transformed copy of a mesh; ``kind`` is one of ``MESH_COPIES``.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> moved = random_copy(mesh, "rotated", torch.Generator().manual_seed(0)).vertices
    >>> torch.allclose(torch.pdist(moved), torch.pdist(mesh.vertices))
    True
    """
    if kind not in MESH_COPIES:
        raise ValueError(f"kind must be one of {', '.join(MESH_COPIES)}, got {kind!r}")
    # rotated: Haar measure of SO(3). reflected: rotated and mirrored, faces keep their winding as
    # in a mirrored file. translated: ten bounding-box diagonals per axis. re-indexed: vertices and
    # faces permuted, corners of each face rotated.
    everything = kind == MESH_COPIES[-1]
    g = torch.eye(4, dtype=torch.float64)  # homogeneous
    if everything or kind in ("rotated", "reflected"):
        mirrored = kind == "reflected" or (everything and _uniform(generator) < 0.5)
        g[:3, :3] = random_orthogonal(generator, -1.0 if mirrored else 1.0)
    if everything or kind == "scaled":
        # log-uniform from 1/100 to 100
        g[:3, :3] *= 100.0 ** (2 * _uniform(generator) - 1)
    moved = mesh.act(g)
    if everything or kind == "translated":
        moved = moved.act(_translation(moved, generator))
    return _reindexed(moved, generator) if everything or kind == "re-indexed" else moved


def random_copies(
    meshes: Sequence[TriangleMesh],
    kind: str,
    seed: int,
    positions: Sequence[int],  # of the meshes in their data set
) -> list[TriangleMesh]:
    """Draw a transformed copy of every mesh, independent of which others are evaluated."""
    return [
        random_copy(mesh, kind, derived_generator(seed, kind, i))
        for i, mesh in zip(positions, meshes, strict=True)
    ]


def _uniform(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def _translation(mesh: TriangleMesh, generator: torch.Generator) -> torch.Tensor:
    # vertices of no face could lie anywhere
    used = mesh.vertices[mesh.faces.unique()]
    diagonal = (used.amax(dim=0) - used.amin(dim=0)).norm()
    g = torch.eye(4, dtype=torch.float64)
    # at ten diagonals coordinates have about one decimal digit less than at the origin
    g[:3, 3] = 10 * diagonal * torch.randn(3, generator=generator, dtype=torch.float64)
    return g


def _reindexed(mesh: TriangleMesh, generator: torch.Generator) -> TriangleMesh:
    new = torch.randperm(mesh.num_vertices, generator=generator)  # position of every vertex
    vertices = torch.empty_like(mesh.vertices)
    vertices[new] = mesh.vertices
    order = torch.randperm(mesh.num_faces, generator=generator)
    # a rotation of the corners keeps the winding, unlike an exchange
    shift = torch.randint(3, (mesh.num_faces, 1), generator=generator)
    faces = new[mesh.faces][order].gather(1, (torch.arange(3) + shift) % 3)
    pairs = mesh.pairs
    if pairs is not None:
        face, place = order.argsort()[pairs // 3], pairs % 3
        pairs = 3 * face + (place - shift[face, 0]) % 3
    return TriangleMesh(vertices, faces, pairs)
