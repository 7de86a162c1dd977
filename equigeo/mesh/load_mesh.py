"""Loading and repair of mesh files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import kind_of
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.mesh.repair.repair import NonmanifoldPolicy, RepairCounts, RepairedMesh, repair_mesh
from equigeo.mesh.repair.topology import MeshTopology


def load_mesh(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    nonmanifold: NonmanifoldPolicy = "cut",
) -> tuple[TriangleMesh, LoadReport]:
    r"""Load an OBJ, OFF, PLY, STL or GLB file and repair defects that break mesh networks.

    Polygons are cut into triangles, vertices at equal positions merged, and degenerate and
    duplicate faces dropped; the rest keep the order of the file. Where more than two faces meet at
    an edge, the mesh is cut. The winding is made consistent and, for closed parts, outward from the
    enclosed solid. Materials, images and groups are not read; malformed colors, normals, texture
    coordinates and labels become NaN or are left out, with a warning in the report. Commutes with
    rotation, translation, scaling and renumbering of the vertices of the file, up to rounding. The
    winding of closed parts is invariant to reflection.

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
        repaired = repair_mesh(file, strict, nonmanifold)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error.__cause__
    pairs = None if repaired.pairs is None else torch.from_numpy(repaired.pairs)
    vertices, faces = torch.from_numpy(repaired.vertices), torch.from_numpy(repaired.faces)
    mesh = TriangleMesh(vertices, faces, pairs)
    return mesh, LoadReport.from_repair(path, file, repaired)


@dataclass(frozen=True, eq=False)
class MeshAttributes:
    """Colors, normals, texture coordinates and other values of a file, in mesh order."""

    vertices: dict[str, Tensor] = field(default_factory=dict)  # (vertices, ...)
    faces: dict[str, Tensor] = field(default_factory=dict)  # (faces, ...)
    # (faces, 3, ...), among them vertex values that differ between merged vertices
    corners: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"MeshAttributes({self.summary()})"

    def summary(self) -> str:
        """Return the names of the attributes; empty if there are none."""
        parts = ((kind, getattr(self, kind)) for kind in ("vertices", "faces", "corners"))
        return "; ".join(f"{kind}: {', '.join(found)}" for kind, found in parts if found)


@dataclass(frozen=True, eq=False, repr=False)
class LoadReport:
    r"""Repairs made by ``load_mesh``, and index maps from the file to the mesh.

    Parameters
    ----------
    path : Path
        The file.
    file_vertices, file_faces, file_triangles : int
        Numbers in the file; triangles after cutting polygons.
    counts : RepairCounts
        Number of repairs of each kind.
    topology : MeshTopology
        Closed, oriented, manifold, components and Euler characteristic of the result.
    kept_faces : Tensor, (faces,), int64
        Face of the file of each face; ``labels[report.kept_faces]`` transfers face labels.
    kept_triangles : Tensor, (faces,), int64
        The same among the triangles of cut polygons.
    vertex_map : Tensor, (file_vertices,), int64
        Index in the result of each vertex of the file, -1 if dropped.
    kept_vertices : Tensor, (vertices,), int64
        A vertex of the file for each vertex; repeated where the mesh was cut.
    turned_faces : Tensor, (turned,), int64
        Faces of the result that were flipped: their last two corners are exchanged.
    nonmanifold_edges : Tensor, (edges, 2), int64
        File vertices of edges where the mesh was cut, or where all faces meet with ``"clique"``.
    lost_area, turned_area : float
        Shares of the area of the file, from 0 to 1, that the result lacks or that was flipped.
        Degenerate and duplicate triangles count as no loss, triangles with a non-finite vertex as
        the mean of the others.
    attributes : MeshAttributes
        Dictionaries ``vertices`` (vertices, ...), ``faces`` (faces, ...) and ``corners``
        (faces, 3, ...) of float64 ``color`` (3 or 4 columns from 0 to 1), ``normal``, ``uv`` and
        other values of the file. Missing values are NaN; vertex values that differ between merged
        vertices are in ``corners``, too.
    warnings : tuple of str
        Findings that need attention.

    Examples
    --------
    >>> import tempfile
    >>> from equigeo.mesh.load_mesh import load_mesh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "square.off")
    ...     _ = path.write_text("OFF 5 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n9 9 9\n4 0 1 2 3")
    ...     report = load_mesh(path)[1]
    >>> print(report.summary())
    square.off: 5 vertices, 1 faces -> 4 vertices, 2 triangles
    open, oriented, manifold, components 1, Euler characteristic 1
    polygons: 1
    unreferenced vertices: 1
    """

    path: Path
    file_vertices: int
    file_faces: int
    file_triangles: int
    counts: RepairCounts
    topology: MeshTopology
    kept_faces: Tensor
    kept_triangles: Tensor
    vertex_map: Tensor
    kept_vertices: Tensor
    turned_faces: Tensor
    nonmanifold_edges: Tensor
    lost_area: float
    turned_area: float
    attributes: MeshAttributes = MeshAttributes()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_repair(cls, path: Path, file: FileMesh, repaired: RepairedMesh) -> LoadReport:
        """Build the report of a repaired file."""
        found = repaired.attributes
        return cls(
            path=path,
            file_vertices=len(file.vertices),
            file_faces=file.num_faces,
            file_triangles=file.num_triangles,
            counts=repaired.counts,
            topology=repaired.topology,
            kept_faces=torch.from_numpy(repaired.polygon),
            kept_triangles=torch.from_numpy(repaired.triangle),
            vertex_map=torch.from_numpy(repaired.vertex_map),
            kept_vertices=torch.from_numpy(repaired.kept_vertices),
            turned_faces=torch.from_numpy(np.flatnonzero(repaired.turned)),
            nonmanifold_edges=torch.from_numpy(repaired.nonmanifold_edges),
            lost_area=repaired.lost_area,
            turned_area=repaired.turned_area,
            attributes=MeshAttributes(*map(_tensors, (found.vertices, found.faces, found.corners))),
            warnings=repaired.warnings,
        )

    def __repr__(self) -> str:
        return f"LoadReport({'; '.join(self.summary().splitlines())})"

    @property
    def is_clean(self) -> bool:
        """Whether the file was loaded without any repair."""
        return not any(asdict(self.counts).values())

    def summary(self) -> str:
        """Summarize in a few lines what was read and repaired."""
        state = self.topology
        flags = [
            "closed" if state.closed else "open",
            "oriented" if state.oriented else "not oriented",
            "manifold" if state.manifold else "not manifold",
            f"components {state.components}",
            f"Euler characteristic {state.euler}",
        ]
        actions = asdict(self.counts).items()
        attributes = self.attributes.summary()
        return "\n".join(
            [
                f"{self.path.name}: {self.file_vertices} vertices, {self.file_faces} faces -> "
                f"{len(self.kept_vertices)} vertices, {len(self.kept_faces)} triangles",
                ", ".join(flags),
                *(f"{action.replace('_', ' ')}: {count}" for action, count in actions if count),
                *([f"lost area: {self.lost_area:.2%}"] if self.lost_area else []),
                *([f"attributes of {attributes}"] if attributes else []),
                *(f"warning: {text}" for text in self.warnings),
            ]
        )


def _tensors(attributes: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(values) for name, values in attributes.items()}
