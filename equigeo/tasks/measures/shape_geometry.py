"""What a page needs of a mesh to draw it."""

from __future__ import annotations

from typing import Any, Final

from equigeo.mesh import PrimalDualClassifier, PrimalDualSegmenter, TriangleMesh

LARGEST_SHOWN: Final = 20_000  # faces; a larger mesh would make the page slow to open


def shape_geometry(
    model: PrimalDualClassifier | PrimalDualSegmenter, name: str, mesh: TriangleMesh
) -> dict[str, Any]:
    """Give the geometry of a mesh, what attention favours and what pooling merged, as JSON types.

    Parameters
    ----------
    model : PrimalDualClassifier or PrimalDualSegmenter
        Whose attention and pooling to show.
    name : str
        What to call the mesh.
    mesh : TriangleMesh
        The shape.

    Returns
    -------
    dict
        ``name``, ``vertices``, ``faces``, ``levels``, the cluster of every face after each pooling,
        and ``attention``, what every face receives in each block, as
        :func:`equigeo.report.render_report` takes them.

    Examples
    --------
    >>> import torch
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> model = PrimalDualClassifier.preset("default", 2)
    >>> shape_geometry(model, "triangle", mesh)["levels"]
    [[0]]
    """
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
    r"""Lay the lines of a load report out as facts, the first one as the file.

    Examples
    --------
    >>> report_facts("a.off: 3 vertices\nclosed\npolygons: 1")
    [('file', 'a.off: 3 vertices'), ('surface', 'closed'), ('repair', 'polygons: 1')]
    """
    lines = summary.splitlines()
    names = ["file", "surface", *["repair"] * len(lines)]
    return list(zip(names, lines, strict=False))
