"""Pairs of half-edges; half-edge 3 f + k runs from corner k of face f to the next."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh

_MAX_VERTICES = 3_000_000_000  # the product of two indices has to fit into 64 bits


def edge_pairs(mesh: TriangleMesh) -> Tensor:
    """Return where faces continue each other, (pairs, 2), lower face first, sorted by faces."""
    if mesh.pairs is None:
        return pairs_of_faces(mesh.faces)
    pairs = mesh.pairs.sort(dim=1).values
    return _sorted_by_faces(pairs[torch.argsort(pairs[:, 0], stable=True)], mesh.num_faces)


def pairs_of_faces(
    faces: Tensor,  # (faces, 3) consistently wound
) -> Tensor:
    """Return :func:`edge_pairs` by vertex indices; raise ``MeshError`` for non-manifold input."""
    repeats = (faces == faces.roll(1, dims=1)).any(dim=1)
    if bool(repeats.any()):
        face = int(torch.nonzero(repeats)[0])
        raise MeshError(f"face {face} repeats a vertex; load_mesh drops such faces")
    start = faces.reshape(-1)
    end = faces.roll(-1, dims=1).reshape(-1)
    if not len(start):
        return start.reshape(0, 2)
    vertices = int(start.max()) + 1
    if vertices > _MAX_VERTICES:
        raise MeshError(f"at most {_MAX_VERTICES} vertices are supported, got {vertices}")
    # A directed edge is one number, so that twins are found by a search in sorted numbers.
    keys, order = torch.sort(start * vertices + end)
    if bool((keys[1:] == keys[:-1]).any()):
        twice = order[1:][keys[1:] == keys[:-1]][0]
        raise MeshError(
            f"face {int(twice) // 3} repeats a directed edge of another face: the mesh is "
            "non-manifold or inconsistently wound; load it with load_mesh, which repairs it"
        )
    reverse = end * vertices + start
    position = torch.searchsorted(keys, reverse).clamp_(max=len(keys) - 1)
    twin, half_edge = order[position], torch.arange(len(start), device=start.device)
    lower = half_edge[(keys[position] == reverse) & (half_edge // 3 < twin // 3)]
    return _sorted_by_faces(torch.stack((lower, twin[lower]), dim=1), len(faces))


def _sorted_by_faces(pairs: Tensor, num_faces: int) -> Tensor:
    key = (pairs[:, 0] // 3) * num_faces + pairs[:, 1] // 3
    return pairs[torch.argsort(key, stable=True)]
