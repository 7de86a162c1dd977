"""Cut the meshes of the robustness corpus at crowded edges, here and by libigl and pymeshlab.

All get the same triangles: vertices merged, degenerate and duplicate faces dropped, wound alike
where possible, and nothing cut. Of each result, the faces, their area and the pairs of faces
that continue each other are counted; a pair is good if its faces run against each other along the
edge. Peers are judged by vertex indices, which is all that they give.

    python -m bench.robustness_peers [--data ../shared/data/robustness_meshes] [--output FILE]

libigl and pymeshlab are optional: what is absent has null in its columns. Exit status 1 if this
library loses a face.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.recorder import Record
from bench.robustness_corpus import arguments_of, corpus
from equigeo.mesh.errors import MeshError
from equigeo.mesh.load_mesh import load_mesh
from equigeo.mesh.repair.topology import EdgeTable

_Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]


def by_libigl(points: NDArray[np.float64], faces: NDArray[np.int64]) -> _Mesh:
    """``igl.split_nonmanifold``."""
    import igl

    split, source = igl.split_nonmanifold(np.ascontiguousarray(faces))
    return points[source], split.astype(np.int64)


def by_pymeshlab(method: str) -> Callable[[NDArray[np.float64], NDArray[np.int64]], _Mesh]:
    """``meshing_repair_non_manifold_edges`` by one of its methods."""

    def repair(points: NDArray[np.float64], faces: NDArray[np.int64]) -> _Mesh:
        import pymeshlab

        meshes = pymeshlab.MeshSet()
        meshes.add_mesh(pymeshlab.Mesh(points, faces))
        meshes.meshing_repair_non_manifold_edges(method=method)
        found = meshes.current_mesh()
        return found.vertex_matrix(), found.face_matrix().astype(np.int64)

    return repair


PEERS = {
    "libigl split_nonmanifold": ("igl", "libigl", by_libigl),
    "pymeshlab split vertices": ("pymeshlab", "pymeshlab", by_pymeshlab("Split Vertices")),
    "pymeshlab remove faces": ("pymeshlab", "pymeshlab", by_pymeshlab("Remove Faces")),
}


def measure(
    points: NDArray[np.float64], faces: NDArray[np.int64], pairs: NDArray[np.int64] | None = None
) -> dict[str, float]:
    """Faces, area, pairs by their winding, and edges that are still crowded."""
    edges = EdgeTable.from_faces(faces)
    pairs = edges.twins() if pairs is None else pairs
    good = edges.forward[pairs[:, 0]] != edges.forward[pairs[:, 1]]
    a, b, c = points[faces].transpose(1, 0, 2)
    return {
        "faces": len(faces),
        "area": float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2),
        "pairs": int(good.sum()),
        "clashing_pairs": int((~good).sum()),
        "crowded_edges": int((edges.num_faces_at_edge > 2).sum()),
    }


def compare(path: Path) -> dict[str, Any] | None:
    """All columns of one file; None where no edge is crowded."""
    begin = time.perf_counter()
    mesh, report = load_mesh(path)
    seconds = time.perf_counter() - begin
    welded = load_mesh(path, nonmanifold="clique")[0]
    points, faces = welded.vertices.numpy(), welded.faces.numpy()
    before = measure(points, faces)
    if not before["crowded_edges"]:
        return None
    pairs = None if mesh.pairs is None else mesh.pairs.numpy()
    ours = measure(mesh.vertices.numpy(), mesh.faces.numpy(), pairs)
    if pairs is not None:  # these, and not vertices, say which faces continue each other
        ours["crowded_edges"] = int((np.bincount(pairs.ravel()) > 1).sum())
    dropped = load_mesh(path, nonmanifold="drop")[0]
    columns: dict[str, Any] = {
        "equigeo cut": ours | {"lost_area": report.lost_area, "load_seconds": round(seconds, 4)},
        "equigeo drop": measure(dropped.vertices.numpy(), dropped.faces.numpy()),
    }
    for name, (module, _, repair) in PEERS.items():
        if find_spec(module) is None:
            columns[name] = None
            continue
        begin = time.perf_counter()
        try:
            found = repair(points, faces)
        except Exception as error:  # a peer's failure is a result
            columns[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            continue
        seconds = time.perf_counter() - begin
        columns[name] = measure(*found) | {"seconds": round(seconds, 4)}
    return {"welded": before} | columns


def totals(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Sums over all files, by column."""
    found: dict[str, Any] = {}
    for name in next(iter(rows.values()), {}):
        columns, before = ([row[key] for row in rows.values()] for key in (name, "welded"))
        if None in columns:
            found[name] = None
            continue
        pairs = list(zip(columns, before, strict=True))
        kept = [after["area"] / was["area"] for after, was in pairs if "area" in after]
        keys = ("faces", "pairs", "clashing_pairs", "crowded_edges")
        found[name] = {key: sum(column.get(key, 0) for column in columns) for key in keys} | {
            "files_with_all_faces": sum(after.get("faces") == was["faces"] for after, was in pairs),
            "mean_share_of_area": round(float(np.mean(kept)), 6) if kept else None,
            "least_share_of_area": round(min(kept), 6) if kept else None,
            "errors": sum("error" in column for column in columns),
        }
    return found


def run(data: Path) -> dict[str, dict[str, Any]]:
    """Compare all files of the corpus that have crowded edges."""
    rows = {}
    with corpus(data) as (folder, files):
        for name in [row["file"] for row in files]:
            try:
                row = compare(folder / name)
            except MeshError:  # see robustness_corpus
                continue
            if row is not None:
                rows[name] = row
    return rows


def main() -> int:
    """Compare from the command line."""
    arguments = arguments_of(__doc__, "robustness_peers")
    record = Record(arguments.output)
    torch.set_num_threads(1)
    rows = run(arguments.data)
    summary = totals(rows)
    peers = {
        package: version(package) if find_spec(module) else None
        for module, package, _ in PEERS.values()
    }
    record.write({"peers": peers, "files": len(rows), "totals": summary, "rows": rows})
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    return 0 if summary["equigeo cut"]["files_with_all_faces"] == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
