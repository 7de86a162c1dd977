"""Simplification by edge collapses."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.remesh.collapse_edges import collapse_edges
from equigeo.mesh.repair.split_vertices import split_vertices

Indices = NDArray[np.int64]


@overload
def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = None,
    *,
    exact: bool = True,
    return_origin: Literal[False] = False,
) -> TriangleMesh: ...


@overload
def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = ...,
    *,
    exact: bool = ...,
    return_origin: Literal[True],
) -> tuple[TriangleMesh, Tensor]: ...


def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = None,
    *,
    exact: bool = True,
    return_origin: bool = False,
) -> TriangleMesh | tuple[TriangleMesh, Tensor]:
    """Collapse edges in order of quadric error until a number of faces is left.

    Euler characteristic, boundaries, parts and winding are unchanged. No face is flipped and no new
    slivers appear. Computed in float64 on the CPU. Commutes with similarities up to rounding, which
    may decide between equal costs. Reference: Garland and Heckbert, "Surface simplification using
    quadric error metrics", 1997.

    Parameters
    ----------
    mesh : TriangleMesh
        Closed or not; non-manifold or inconsistently wound ones raise ``MeshError``.
    num_faces : int
        Faces to keep. A collapse removes two, at the boundary one; closed surfaces keep an even
        number.
    generator : torch.Generator, optional
        Randomizes all costs by a factor, for other connectivity at about the same error.
    exact : bool
        Raise ``ValueError`` unless ``num_faces`` is reached; otherwise stop at the next larger
        number that can be.
    return_origin : bool
        Whether to return ``origin``, too.

    Returns
    -------
    mesh : TriangleMesh
        Without unused vertices; fans of faces that met at a vertex have separate ones.
    origin : Tensor, (num_faces,), int64
        Original index of each face, increasing; face attributes transfer by indexing with it.

    Examples
    --------
    >>> import trimesh
    >>> sphere = TriangleMesh.from_trimesh(trimesh.creation.icosphere(2))
    >>> simplify(sphere, 100, torch.Generator().manual_seed(0))
    TriangleMesh(vertices=52, faces=100)
    """
    check_mesh(mesh)
    if not 1 <= num_faces <= mesh.num_faces:
        raise ValueError(f"num_faces must be from 1 to {mesh.num_faces}, got {num_faces}")
    pairs = edge_pairs(mesh).cpu().numpy()
    faces, source = split_vertices(
        mesh.faces.cpu().numpy(), pairs, np.ones(mesh.num_vertices, bool)
    )
    vertices = mesh.vertices.cpu().numpy()
    vertices = np.concatenate([vertices, vertices[source]])
    corners = vertices[faces]  # vertices of no face could lie anywhere
    center, size = corners.mean(axis=(0, 1)), max(np.ptp(corners, axis=(0, 1)).max(), _TINY)
    vertices = (vertices - center) / size
    ambiguous = _ambiguous(faces, pairs)
    fixed = np.zeros(len(vertices), bool)
    fixed[_ends(faces)[ambiguous]] = True
    positions, simple, origin = collapse_edges(
        vertices, faces, num_faces, _numpy_generator(generator), fixed=fixed
    )
    if exact and len(simple) != num_faces:
        raise ValueError(
            f"num_faces = {num_faces} cannot be reached: collapses that keep the topology of this "
            f"surface end at {len(simple)} faces; exact=False takes that"
        )
    kept = _kept_pairs(faces, pairs, fixed, simple, origin) if ambiguous.any() else None
    device = mesh.faces.device
    result = TriangleMesh(
        torch.from_numpy(positions * size + center).to(device),
        torch.from_numpy(simple).to(device),
        None if kept is None else torch.from_numpy(kept).to(device),
    )
    return (result, torch.from_numpy(origin).to(device)) if return_origin else result


_TINY = float(np.finfo(np.float64).tiny)


def _numpy_generator(generator: torch.Generator | None) -> np.random.Generator | None:
    if generator is None:
        return None
    seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
    return np.random.default_rng(int(seed))


def _ends(faces: Indices) -> Indices:
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)


def _ambiguous(faces: Indices, pairs: Indices) -> NDArray[np.bool_]:
    """Mark the sides of faces where vertex indices and pairs give different neighbours."""
    low, high = np.sort(_ends(faces), axis=1).T
    keys = low * (int(faces.max(initial=0)) + 1) + high
    _, edge, counts = np.unique(keys, return_inverse=True, return_counts=True)
    partners = np.bincount(pairs.reshape(-1), minlength=faces.size)
    start = faces.reshape(-1)
    same_way = np.zeros(faces.size, bool)
    runs_along = np.equal(start[pairs[:, 0]], start[pairs[:, 1]])
    same_way[pairs[runs_along]] = True
    differs: NDArray[np.bool_] = (counts[edge] - 1 != partners) | (counts[edge] > 2) | same_way
    return differs


def _kept_pairs(
    faces: Indices, pairs: Indices, fixed: NDArray[np.bool_], simple: Indices, origin: Indices
) -> Indices:
    """Keep the pairs between fixed vertices and match all others by vertex indices."""
    number = np.full(len(faces), -1)
    number[origin] = np.arange(len(origin))
    start, end = _ends(faces).T
    stays = fixed[start] & fixed[end]
    old = pairs[stays[pairs].all(axis=1)]
    taken = 3 * number[old // 3] + old % 3
    settled = stays.reshape(-1, 3)[origin].reshape(-1)
    free = np.flatnonzero(~settled)
    ends = _ends(simple)[free]
    low, high = ends.min(axis=1), ends.max(axis=1)
    order = np.lexsort((high, low))
    low, high, free = low[order], high[order], free[order]
    twin = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    found = np.stack([free[:-1][twin], free[1:][twin]], axis=1)
    return np.concatenate([taken, found])
