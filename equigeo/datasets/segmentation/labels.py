"""Readers of label files and labeled meshes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo.datasets.segmentation.dataset import UNLABELLED, EdgeLabels
from equigeo.datasets.segmentation.edges import FileTriangles, lines_of_edges
from equigeo.datasets.shapes.remeshing import nearest_triangles
from equigeo.mesh import LoadReport, TriangleMesh, load_mesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file

# A file of labels is small: this is a label of 16 bytes for each of 64 million faces.
_MAX_BYTES = 1 << 30
MAX_LABEL: Final = 1000  # far above any set of parts: a file with more holds something else

# What programs call a label per face or vertex; CloudCompare writes scalar_Label.
_LABEL = re.compile(r"(?i:(scalar_)?(label|class|part|segment)(s|es|_?ids?)?)")

_DAMAGE = (ValueError, TypeError, OSError, EOFError, SyntaxError, MemoryError, OverflowError)


def read_labels(
    path: Path,  # `.npy` or text; floats such as 3.000e+00 are accepted
) -> NDArray[np.int64]:
    """Read one integer label from 0 to 1000, or -1 for none, per face or edge, (lines,)."""
    values = read_numbers(path)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not values.size:
        raise ValueError("is empty; it must hold one label a line")
    if values.ndim != 1:
        raise ValueError(f"must hold one label a line, got numbers of shape {values.shape}")
    return _checked(values, lambda row: f"line {row + 1}")


def read_numbers(
    path: Path,  # `.npy`, or a table as text
) -> NDArray[np.float64]:
    """Read an array of numbers of any shape, or a table (lines, columns)."""
    return _read_array(path) if path.suffix.lower() == ".npy" else _read_table(path)


def _checked(values: NDArray[Any], locate: Callable[[int], str]) -> NDArray[np.int64]:
    """Convert labels (n,) to integers; raise for the first invalid one."""
    bad = ~(np.isfinite(values) & (values >= UNLABELLED) & (values <= MAX_LABEL))
    bad |= np.where(bad, 0, values) % 1 != 0
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{locate(row)}: a label must be an integer from 0 to {MAX_LABEL}, or {UNLABELLED} "
            f"for none, got {values[row]}"
        )
    return values.astype(np.int64)


def read_soft_labels(path: Path) -> NDArray[np.float64]:
    """Read the class shares of each edge from text, (lines, columns)."""
    values = _read_table(path)
    if not len(values):
        raise ValueError("is empty; it must hold the shares of all classes, one edge a line")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise ValueError(f"line {row + 1}: must hold shares, got {values[row, column]}")
    return values


def _read_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ValueError("is not a regular file")
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise ValueError(f"has {size} bytes, more than {_MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error


def _read_array(path: Path) -> NDArray[np.float64]:
    """Read an array of integers, or of floats with integer values."""
    if not _read_bytes(path):
        raise ValueError("is empty; it must hold one number for each face")
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
    except _DAMAGE as error:
        raise ValueError("is no array of NumPy without objects; save it by numpy.save") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        kind = values.dtype if isinstance(values, np.ndarray) else "several arrays"
        raise ValueError(f"must hold one array of integers or floats, got {kind}")
    return values.astype(np.float64)


def _read_table(path: Path) -> NDArray[np.float64]:
    """Read a table of numbers, (lines, columns)."""
    try:
        text = _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("is no text; it must hold numbers") from error
    lines = text.rstrip().splitlines()
    sizes = np.fromiter(map(len, map(str.split, lines)), np.int64, len(lines))
    if (sizes != sizes[:1]).any():
        line = int((sizes != sizes[0]).argmax())
        raise ValueError(f"line {line + 1} has {sizes[line]} numbers, the first has {sizes[0]}")
    words = text.split()
    try:
        if "_" in text:  # which Python takes for a separator of digits
            raise ValueError
        return np.array(words, dtype=np.float64).reshape(len(lines), -1 if words else 0)
    except ValueError:
        word = next(k for k, word in enumerate(words) if not _is_number(word))
        line = word // int(sizes[0]) + 1
        raise ValueError(f"line {line}: must hold numbers, got {words[word][:20]!r}") from None


def _is_number(word: str) -> bool:
    try:
        np.float64(word)
    except ValueError:
        return False
    return "_" not in word


def edge_to_face_labels(
    labels: Tensor,  # (faces, 3) class of each edge or corner, -1 if unknown
    lengths: Tensor,  # (faces, 3); of equal lengths the first is the longest
) -> tuple[Tensor, Tensor]:
    """Return the majority label of each face's edges, the longest edge's in a tie, and the ties."""
    known = labels >= 0
    votes = (labels[:, :, None] == labels[:, None, :]).sum(dim=2) * known
    most = votes.max(dim=1, keepdim=True).values
    leads = known & (votes == most)
    # Only leading edges compete in length; a face without labels takes -1 from any of its edges.
    # Majority as in Milano et al., "Primal-Dual Mesh Convolutional Neural Networks", 2020; their
    # result of ties depends on the order of faces.
    chosen = torch.where(leads, lengths, -1.0).argmax(dim=1, keepdim=True)
    face_labels = labels.gather(1, chosen)
    ambiguous = (leads & (labels != face_labels)).any(dim=1)
    return face_labels[:, 0], ambiguous


@dataclass(frozen=True, eq=False, repr=False)
class LabelledMesh:
    """Mesh with labels in the class numbers of the file."""

    mesh: TriangleMesh
    report: LoadReport
    labelled: Literal["faces", "edges"]  # meaning of the lines of the file
    values: Tensor  # (lines,) content of the file
    face_labels: Tensor  # (faces,), -1 if unlabeled
    edge_labels: EdgeLabels

    __repr__ = brief_repr


def load_labelled_mesh(
    mesh_path: Path,
    label_path: Path | None,  # None: a property of the mesh file
    soft_path: Path | None = None,  # soft labels of edges
    **options: Any,  # of `load_mesh`
) -> LabelledMesh:
    """Load a mesh and transfer its labels through the repairs of faces and edges."""
    mesh, report = load_mesh(mesh_path, **options)
    if label_path is None:
        labels = _own_labels(mesh, report)
        return LabelledMesh(mesh, report, "faces", labels, labels, EdgeLabels())
    # `.eseg` files label edges (MeshCNN) or faces (PD-MeshNet), by the number of lines; all
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


def _own_labels(mesh: TriangleMesh, report: LoadReport) -> Tensor:
    """Return the labels in a property of faces or of vertices, (faces,)."""
    given, corners = report.attributes, report.attributes.corners
    at_vertices = {name: x[mesh.faces] for name, x in given.vertices.items()} | corners
    kinds = (("face", given.faces), ("vertex", at_vertices))
    found = [(kind, name) for kind, values in kinds for name in values if _LABEL.fullmatch(name)]
    if not found:
        raise ValueError(
            "has no labels; expected a file in seg, or a property label, class, part or segment of "
            "its faces or vertices"
        )
    if len(found) > 1:
        several = ", ".join(f"{kind} property {name!r}" for kind, name in found)
        raise ValueError(f"has several labels: {several}; keep one of them")
    ((kind, name),) = found
    values = dict(kinds)[kind][name].numpy()
    where = f"{kind} property {name!r}"
    labels = torch.from_numpy(_checked(values.ravel(), lambda row: where).reshape(values.shape))
    if kind == "face":
        return labels
    # The majority of the corners, and of three different ones that of the widest angle.
    place = mesh.vertices[mesh.faces]
    opposite = torch.linalg.vector_norm(place.roll(-2, dims=1) - place.roll(-1, dims=1), dim=2)
    return edge_to_face_labels(labels, opposite)[0]


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
    """Decide by the number of lines whether faces or edges are labeled; return also the lines."""
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


def transfer_face_labels(
    mesh: TriangleMesh,
    labels: Tensor,  # (faces, ...)
    other: TriangleMesh,  # same surface, such as a simplification
) -> Tensor:
    """Label the faces of another mesh by the nearest faces of this one, (faces of other, ...)."""
    if labels.shape[:1] != (mesh.num_faces,):
        raise ValueError(f"labels must be of {mesh.num_faces} faces, got {tuple(labels.shape)}")
    corners = mesh.vertices[mesh.faces]
    sides = corners[:, 1:] - corners[:, :1]
    # Faces without area are excluded.
    whole = torch.linalg.cross(sides[:, 0], sides[:, 1]).norm(dim=1) > 0
    if not bool(whole.any()):
        raise ValueError("the mesh must have some area to carry labels over")
    centres = other.vertices[other.faces].mean(dim=1)
    nearest, _ = nearest_triangles(centres.numpy(), corners[whole].numpy())
    return labels[whole][torch.from_numpy(nearest)]
