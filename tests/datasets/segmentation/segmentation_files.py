"""Folders of labeled meshes in the exact formats of MeshCNN and of PD-MeshNet's redistribution."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

Face = Sequence[int]
Edge = tuple[int, int]


def scan_edges(faces: Sequence[Face]) -> dict[Edge, int]:
    """Edges by the order of their first appearance."""
    numbers: dict[Edge, int] = {}
    for face in faces:
        for k in range(3):
            edge = tuple(sorted((int(face[k]), int(face[(k + 1) % 3]))))
            numbers.setdefault(edge, len(numbers))
    return numbers


def scan_kept(vertices: np.ndarray, faces: Sequence[Face]) -> list[int]:
    """Faces that the cleaning of MeshCNN keeps."""
    taken: set[Edge] = set()
    kept = []
    for number, (a, b, c) in enumerate(faces):
        area = np.linalg.norm(np.cross(vertices[b] - vertices[a], vertices[c] - vertices[a]))
        directed = [(a, b), (b, c), (c, a)]
        if area > 0 and not taken & set(directed):
            taken |= set(directed)
            kept.append(number)
    return kept


def soft_labels(faces: Sequence[Face], labels: Sequence[int], columns: int) -> np.ndarray:
    """Shares of the labels of the other edges of the faces at each edge, from labels of edges."""
    edges = scan_edges(faces)
    rows = np.zeros((len(edges), columns))
    for face in faces:
        own = [edges[tuple(sorted((face[k], face[(k + 1) % 3])))] for k in range(3)]
        for k in range(3):
            for other in (own[k - 1], own[k - 2]):
                rows[own[k], labels[other]] += 0.25
    return rows


def write_obj(path: Path, vertices: np.ndarray, faces: Sequence[Face]) -> None:
    """As MeshCNN's own exports look: positions in full, indices from 1."""
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.asarray(vertices, float).tolist()]
    lines += ["f " + " ".join(str(int(i) + 1) for i in face) for face in faces]
    _write(path, lines)


def write_ply(path: Path, vertices: np.ndarray, faces: Sequence[Face]) -> None:
    """As in PD-MeshNet's redistribution: text, with colors of vertices."""
    header = ["ply", "format ascii 1.0", f"element vertex {len(vertices)}"]
    header += [f"property float {axis}" for axis in "xyz"]
    header += [f"property uchar {color}" for color in ("red", "green", "blue")]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header"]
    points = [f"{x!r} {y!r} {z!r} 9 9 9" for x, y, z in np.asarray(vertices, float).tolist()]
    _write(path, header + points + ["3 " + " ".join(map(str, map(int, f))) for f in faces])


def write_labels(path: Path, labels: Sequence[int], first: int = 0, form: str = "{}") -> None:
    """One number a line."""
    _write(path, [form.format(int(label) + first) for label in labels])


def write_soft(path: Path, rows: np.ndarray) -> None:
    """One row of shares a line, as numpy.savetxt writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, rows, fmt="%f")


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
