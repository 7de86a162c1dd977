"""Loading and repair of mesh files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from equigeo._core.checks import kind_of
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.mesh.repair.repair import MERGE, LoadReport, NonmanifoldPolicy, repair_mesh


def load_mesh(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    nonmanifold: NonmanifoldPolicy = "cut",
    merge: float = MERGE,
    min_component: float = 0.0,
) -> tuple[TriangleMesh, LoadReport]:
    r"""Load an OBJ, OFF, PLY, STL or GLB file and repair defects that break mesh networks.

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
        The extension determines the format. At most 2 GiB are read. The meshes of a GLB scene are
        transformed and joined.
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
        return repair_mesh(path, file, strict, nonmanifold, merge, min_component)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error.__cause__
