"""A mesh of the same surface with a multiple of its faces."""

from __future__ import annotations

import torch

from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.remesh.simplify import simplify
from equigeo.mesh.remesh.subdivide import subdivide


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
