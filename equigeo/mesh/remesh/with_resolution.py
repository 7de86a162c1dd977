"""A mesh of the same surface with a multiple of its faces.

On its own because it joins simplification and subdivision, for every task that trains on meshes.
"""

from __future__ import annotations

import torch

from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.remesh.simplify import simplify
from equigeo.mesh.remesh.subdivide import subdivide


def with_resolution(
    mesh: TriangleMesh, factor: float, generator: torch.Generator | None = None
) -> TriangleMesh:
    """Simplify a mesh, or subdivide and simplify it, to a multiple of its number of faces.

    Parameters
    ----------
    mesh : TriangleMesh
        Consistently wound.
    factor : float
        How many times the number of its faces to have: positive, at most 4.
    generator : torch.Generator, optional
        As of :func:`equigeo.mesh.simplify`.

    Returns
    -------
    TriangleMesh
        With that number of faces; or the least number above it that collapses lead to, where a
        surface has too little to collapse, or is closed and the number odd.

    Raises
    ------
    MeshError
        If the mesh is non-manifold or inconsistently wound.
    TypeError
        If it is no TriangleMesh.
    ValueError
        If the factor is out of range.

    Examples
    --------
    >>> import trimesh
    >>> box = TriangleMesh.from_trimesh(trimesh.creation.box())
    >>> with_resolution(box, 3.0).num_faces
    36
    """
    if not 0 < factor <= 4:
        raise ValueError(f"factor must be positive and at most 4, got {factor}")
    fine = subdivide(mesh) if factor > 1 else mesh
    wanted = min(max(round(factor * mesh.num_faces), 1), fine.num_faces)
    return simplify(fine, wanted, generator, exact=False)
