"""Loading and repair of mesh files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from equigeo._core.checks import kind_of
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_vectors
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.mesh.repair.repair import MERGE, LoadReport, NonmanifoldPolicy, repair_mesh

# Groups of properties, which files name in several ways.
_GROUPS = {"color": ("red green blue alpha",), "normal": ("nx ny nz",), "uv": ("u v", "s t")}
_COLUMNS = {
    name: (group, column)
    for group, spellings in _GROUPS.items()
    for names in spellings
    for column, name in enumerate(names.split())
}


def load_mesh(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    nonmanifold: NonmanifoldPolicy = "cut",
    merge: float = MERGE,
    min_component: float = 0.0,
    inputs: Sequence[str] = (),
) -> tuple[TriangleMesh, LoadReport]:
    r"""Load a mesh file and repair defects that break mesh networks.

    Polygons are cut into triangles, vertices at equal positions merged, and degenerate and
    duplicate faces dropped; the rest keep the order of the file. Where more than two faces meet at
    an edge, the mesh is cut. The winding is made consistent and, for closed parts, outward from the
    enclosed solid. Materials, images and groups are not read; malformed colors, normals, texture
    coordinates and labels become NaN or are left out, with a warning in the report. Commutes with
    rotation, translation, scaling and renumbering of the vertices of the file, up to rounding and
    to polygons with equal diagonals. The winding of closed parts is invariant to reflection.

    Parameters
    ----------
    path : str or PathLike
        The extension determines the format: OBJ, OFF, PLY, STL, VTP, GLB, glTF with the files
        beside it, or 3MF, if lxml and networkx are installed. At most 2 GiB are read. The meshes of
        a scene are transformed and joined.
    strict : bool
        Whether to raise ``MeshError`` at the first defect, so that the mesh is the file as written;
        files that cannot be used always raise it.
    nonmanifold : {"cut", "drop", "clique"}
        Treatment of edges with more than two faces. ``"cut"``: faces continue each other in pairs,
        first those that did before vertices were merged, then neighbors around the edge.
        ``"drop"``: later faces of the file are dropped, as in PD-MeshNet. ``"clique"``: every face
        continues every other.
    merge : float
        Boundary edges whose ends are this close to those of another one are merged with it, such as
        the edges of a triangle soup with noise. The unit is the diagonal of the bounding box.
        Copies of a vertex must also lie within a tenth of the shortest edge of their faces, so that
        small features stay. 0 merges equal positions only.
    min_component : float
        Components with less than this share of the area are dropped, such as debris of a scan.
    inputs : sequence of str
        Properties of faces or vertices that become ``mesh.inputs``, by their names in PLY files,
        such as ``("red", "green", "blue")`` or the vector ``("nx", "ny", "nz")``. Those of vertices
        are averaged to faces.

    Returns
    -------
    mesh : TriangleMesh
        At least one triangle. ``mesh.pairs`` is set if vertices alone do not determine which faces
        continue each other.
    report : LoadReport
        Counts of all repairs, index maps back to the file, and its attributes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.obj")
    ...     _ = path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 2")
    ...     mesh, report = load_mesh(path)
    >>> mesh.num_faces, report.counts.repeated_index_faces, report.kept_faces.tolist()
    (1, 1, [0])
    """
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a str or a PathLike, got {kind_of(path)}")
    path = Path(path)
    try:
        file = read_mesh_file(path)
        mesh, report = repair_mesh(path, file, strict, nonmanifold, merge, min_component)
        return (
            replace(mesh, inputs=_read_inputs(mesh, report, inputs)) if inputs else mesh
        ), report
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error.__cause__


def _read_inputs(mesh: TriangleMesh, report: LoadReport, names: Sequence[str]) -> dict[str, Tensor]:
    """Return properties per face, or raise for missing values and for parts of a vector."""
    if len(set(names)) < len(names):
        raise MeshError(f"inputs must have different names, got {tuple(names)}")
    values = property_values(mesh, report, names, "faces")
    check_vectors(names, [*_property_names(report), *_GROUPS["normal"][0].split()])
    for name, column in zip(names, values.unbind(1), strict=True):
        if not bool(column.isfinite().all()):
            missing = int((~column.isfinite()).sum())
            raise MeshError(f"property {name!r} has no value for {missing} of {len(column)} faces")
    return dict(zip(names, values.unbind(1), strict=True))


def property_values(
    mesh: TriangleMesh,
    report: LoadReport,
    names: Sequence[str],  # properties, as PLY files name them
    at: Literal["faces", "vertices"],
) -> Tensor:
    """Return values of a file per face or vertex, (elements, names); NaN where it has none."""
    # Values of vertices are averaged to faces; those that differ between faces are in `corners`,
    # and averaged to vertices.
    given = report.attributes
    found = []
    for name in names:
        values, corners = _column(given.vertices, name), _column(given.corners, name, 2)
        if at == "vertices" and values is not None and corners is not None:
            at_corners = corners.reshape(-1, 1), mesh.faces.flatten()
            values = means_of_known(*at_corners, mesh.num_vertices)[:, 0]
        if at == "faces":
            own = _column(given.faces, name)
            if corners is None and values is not None:
                corners = values[mesh.faces]
            values = own if own is not None or corners is None else corners.mean(dim=1)
        if values is None:
            kinds = "vertices" if at == "vertices" else "faces or vertices"
            raise MeshError(
                f"has no property {name!r} of its {kinds}; "
                f"it has {', '.join(_property_names(report)) or 'none'}"
            )
        found.append(values)
    return torch.stack(found, dim=1)


def means_of_known(
    values: Tensor,  # (rows, columns), NaN if unknown
    index: Tensor,  # (rows,)
    number: int,
) -> Tensor:
    """Return the mean of known values at each index, (number, columns); NaN without any."""
    known = ~values.isnan()
    pair = torch.stack((torch.where(known, values, 0.0), known.to(values)))
    total, count = pair.new_zeros(2, number, values.shape[1]).index_add(1, index, pair)
    return total / count


def _column(
    values: Mapping[str, Tensor],
    name: str,
    ndim: int = 1,  # of a scalar; a group has one more
) -> Tensor | None:
    """Return a property by name, or the column of a group."""
    if name in values and values[name].ndim == ndim:
        return values[name].double()
    group, column = _COLUMNS.get(name, ("", 0))
    found = values.get(group)
    if found is None or found.ndim == ndim or column >= found.shape[-1]:
        return None
    return found[..., column].double()


def _property_names(report: LoadReport) -> list[str]:
    given = report.attributes
    every = [(name, x, x.ndim > ndim)
             for part, ndim in ((given.faces, 1), (given.vertices, 1), (given.corners, 2))
             for name, x in part.items()]  # fmt: skip
    names = [
        part
        for name, x, is_group in every
        for part in (_GROUPS[name][0].split()[: x.shape[-1]] if is_group else (name,))
    ]
    return list(dict.fromkeys(names))
