"""Loading and repair of mesh files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import torch

from equigeo.graphs.inputs import kind_of
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.mesh.load_report import LoadReport
from equigeo.mesh.repair.repair_mesh import NonmanifoldPolicy, repair_mesh


def load_mesh(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    nonmanifold: NonmanifoldPolicy = "cut",
) -> tuple[TriangleMesh, LoadReport]:
    r"""Load an OBJ, OFF, PLY, STL or GLB file and repair defects that break mesh networks.

    Faces keep the order of the file. Polygons are cut into triangles; vertices at the same place
    are merged; degenerate and duplicate faces are dropped; where more than two faces meet at an
    edge, the mesh is cut, and no face is lost; the winding is made consistent, on closed parts out
    of the solid that they bound, walls of cavities included. The report counts all of it, maps
    faces and vertices back, and has the colors, normals, texture coordinates and labels of the
    file in the order of the mesh.

    A defect of these attributes never makes a file unusable: values that the file lacks are NaN,
    what cannot be read is left out, and ``report.warnings`` says so. Materials, images and groups
    are not read.

    Parameters
    ----------
    path : str or PathLike
        The file; its extension names the format. At most 2 GiB are read, of which 1 MiB may be the
        header of a PLY file, and faces have at most 65,536 corners: see ``equigeo.mesh.io.limits``.
        All meshes of a GLB scene become one, moved to where the scene has them.
    strict : bool, keyword-only
        Whether to raise at the first defect instead, so that the mesh is the file as written.
    nonmanifold : {"cut", "drop", "clique"}, keyword-only
        What becomes of an edge of more than two faces. ``"cut"``: pairs of faces continue each
        other, those first that did before vertices were merged, then neighbours around the edge;
        the rest ends there. ``"drop"``: faces that come too late in the file are dropped, as
        PD-MeshNet does. ``"clique"``: every face continues every other.

    Returns
    -------
    mesh : TriangleMesh
        At least one triangle; along every edge at most two faces continue each other, wound alike,
        unless all do by ``"clique"``. Where vertices alone do not tell which, ``mesh.pairs`` does.
    report : LoadReport
        What was done.

    Raises
    ------
    TypeError
        If ``path`` is no path.
    ValueError
        If the policy is unknown.
    MeshError
        If the file cannot be used, or has a defect in strict mode. One message names the file, the
        cause and the remedy.

    Equivariance
    ------------
    Commutes with rotation, translation and scaling of the file, and with renumbering its vertices,
    up to the rounding of tolerances. A reflection is undone in the winding of closed parts.

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
        repaired = repair_mesh(file, strict, nonmanifold)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error.__cause__
    pairs = None if repaired.pairs is None else torch.from_numpy(repaired.pairs)
    vertices, faces = torch.from_numpy(repaired.vertices), torch.from_numpy(repaired.faces)
    mesh = TriangleMesh(vertices, faces, pairs)
    return mesh, LoadReport.from_repair(path, file, repaired)
