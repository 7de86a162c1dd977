"""Loader for a mesh file with its label files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from equigeo.datasets.segmentation.edge_to_face_labels import edge_to_face_labels
from equigeo.datasets.segmentation.file_triangles import FileTriangles, lines_of_edges
from equigeo.datasets.segmentation.read_labels import read_labels, read_soft_labels
from equigeo.datasets.segmentation.segmented_mesh_dataset import UNLABELLED, EdgeLabels
from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh import LoadReport, TriangleMesh, load_mesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file


@dataclass(frozen=True, eq=False, repr=False)
class LabelledMesh:
    """Mesh with labels in the class numbers of the file."""

    mesh: TriangleMesh
    report: LoadReport
    labelled: Literal["faces", "edges"]  # meaning of the lines of the file
    values: Tensor  # (lines,) content of the file
    face_labels: Tensor  # (faces,), -1 if unlabelled
    edge_labels: EdgeLabels

    __repr__ = brief_repr


def load_labelled_mesh(
    mesh_path: Path,
    label_path: Path,
    soft_path: Path | None = None,  # soft labels of edges
    *,
    strict: bool = False,  # raise for a mesh that needs repair
) -> LabelledMesh:
    """Load a mesh and transfer its labels through the repairs of faces and edges."""
    mesh, report = load_mesh(mesh_path, strict=strict)
    # `.eseg` files label edges (MeshCNN) or faces (PD-MeshNet), as the number of lines tells; all
    # others label faces.
    is_eseg = label_path.suffix.lower() == ".eseg"
    with _naming(label_path):
        values = torch.from_numpy(read_labels(label_path))
        if not is_eseg and len(values) != report.file_faces:
            raise ValueError(
                f"has {len(values)} labels; {mesh_path.name} has {report.file_faces} faces"
            )
        if not is_eseg and soft_path is None:
            labels = values[report.kept_faces]
            return LabelledMesh(mesh, report, "faces", values, labels, EdgeLabels())
        file = FileTriangles.from_file(read_mesh_file(mesh_path))
        labelled, lines = _lines(len(values), file, mesh_path, is_eseg)
    follow = partial(lines_of_edges, mesh=mesh, report=report)
    soft = None
    if soft_path is not None:
        with _naming(soft_path):
            soft = _soft(soft_path, len(values) if labelled == "edges" else None, file, follow)
    if labelled == "faces":
        labels = _pick(values, lines)[report.kept_triangles]
        return LabelledMesh(mesh, report, "faces", values, labels, EdgeLabels(soft=soft))
    of_file, unclear = edge_to_face_labels(_pick(values, lines), file.lengths())
    hard = _pick(values, follow(lines))
    edge_labels = EdgeLabels(hard, soft, int(unclear[report.kept_triangles].sum()))
    labels = of_file[report.kept_triangles]
    return LabelledMesh(mesh, report, "edges", values, labels, edge_labels)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Prefix errors with the name and folder of a label file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path.parent.name}/{path.name}: {error}") from error


def _lines(
    number: int, file: FileTriangles, mesh_path: Path, is_eseg: bool
) -> tuple[Literal["faces", "edges"], Tensor]:
    """Decide by the number of lines whether faces or edges are labelled; return also the lines."""
    if not is_eseg:
        return "faces", torch.arange(number)
    faces, edges = file.face_lines(number), file.edge_lines(number)
    if edges is None and faces is not None:
        return "faces", faces
    if faces is None and edges is not None:
        return "edges", edges
    has = f"{_count(file.edges.vertices, file.kept_edges.vertices)} edges"
    has = f"{mesh_path.name} has {has} and {_count(file.faces, file.kept)} faces"
    if edges is None:
        raise ValueError(f"has {number} labels; {has}")
    raise ValueError(
        f"has {number} labels, which may be those of edges or of faces: {has}; give labels of "
        "faces another suffix, .seg, or drop degenerate and duplicate faces"
    )


def _count(written: Sized, kept: Sized) -> str:
    """Return one or both counts for a message."""
    if len(written) == len(kept):
        return str(len(written))
    return f"{len(written)} ({len(kept)} without faces that are degenerate or not manifold)"


def _pick(values: Tensor, lines: Tensor) -> Tensor:
    """Return values by line, and ``UNLABELLED`` for line -1."""
    return torch.cat([values, values.new_tensor([UNLABELLED])])[lines]


def _soft(
    path: Path, number: int | None, file: FileTriangles, follow: Callable[[Tensor], Tensor]
) -> Tensor:
    """Read soft labels; their number must match hard labels of edges."""
    rows = torch.from_numpy(read_soft_labels(path))
    lines = file.edge_lines(len(rows))
    if lines is None or number not in {None, len(rows)}:
        count = _count(file.edges.vertices, file.kept_edges.vertices)
        raise ValueError(f"has {len(rows)} rows; expected {count if number is None else number}")
    return torch.cat([rows, rows.new_zeros(1, rows.shape[1])])[follow(lines)]
