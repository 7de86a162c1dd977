"""Mesh data for reports."""

from __future__ import annotations

from typing import Any, Final

from equigeo.mesh import PrimalDualClassifier, PrimalDualSegmenter, TriangleMesh

LARGEST_SHOWN: Final = 20_000  # faces; a larger mesh would make the page slow to open


def shape_geometry(
    model: PrimalDualClassifier | PrimalDualSegmenter, name: str, mesh: TriangleMesh
) -> dict[str, Any]:
    """Return geometry, received attention and clusters of a mesh for reports, as JSON types."""
    device = next(model.parameters()).device
    seen = mesh.vertices[mesh.faces].flatten(0, 1)
    middle = (seen.amin(0) + seen.amax(0)) / 2 if len(seen) else 0.0
    found = model.inspect(model.graph(mesh).to(device))
    return {
        "name": name,
        # five digits are more than the eye sees, and half the bytes
        "vertices": [[float(f"{x:.5g}") for x in row] for row in (mesh.vertices - middle).tolist()],
        "faces": mesh.faces.tolist(),
        "levels": [level.tolist() for level in found.clusters],
        "attention": [[round(x, 3) for x in block.tolist()] for block in found.attention],
    }


def report_facts(summary: str) -> list[tuple[str, str]]:
    """Convert the lines of a load report to (name, value) facts."""
    lines = summary.splitlines()
    names = ["file", "surface", *["repair"] * len(lines)]
    return list(zip(names, lines, strict=False))
