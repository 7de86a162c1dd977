"""Topological properties of a set of triangles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.connected_components import connected_components_numpy
from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.split_vertices import vertex_fans


@dataclass(frozen=True)
class MeshTopology:
    """Topological properties of a mesh."""

    closed: bool  # every edge has two faces
    oriented: bool  # faces at an edge have opposite directions
    manifold: bool  # at most two faces per edge and one fan per vertex
    nonmanifold_vertices: int  # vertices with several fans
    components: int  # connected by common vertices
    euler: int  # used vertices - edges + faces

    @classmethod
    def from_faces(
        cls,
        faces: NDArray[np.int64],  # (faces, 3)
        edges: EdgeTable | None = None,
        pairs: NDArray[np.int64] | None = None,  # (pairs, 2) if vertices are ambiguous
    ) -> MeshTopology:
        """Compute the topology of triangles."""
        edges = EdgeTable.from_faces(faces) if edges is None else edges
        counts = edges.num_faces_at_edge
        twins = edges.twins() if pairs is None else pairs
        # A half-edge without a partner in `pairs` is an edge of its own.
        num_edges = len(counts) if pairs is None else faces.size - len(pairs)
        used = np.bincount(faces.ravel()) > 0
        fans = _num_fans(faces, _all_links(edges) if pairs is None else pairs)
        return cls(
            closed=bool((counts == 2).all()) if pairs is None else 2 * len(pairs) == faces.size,
            oriented=bool((edges.forward[twins[:, 0]] != edges.forward[twins[:, 1]]).all()),
            manifold=bool((pairs is not None or (counts <= 2).all()) and (fans <= 1).all()),
            nonmanifold_vertices=int((fans > 1).sum()),
            components=num_components(faces),
            euler=int(used.sum()) - num_edges + len(faces),
        )


def num_components(
    faces: NDArray[np.int64],  # (faces, 3)
) -> int:
    """Count the parts connected by common vertices; unused vertices do not count."""
    a, b, c = faces.T
    label = connected_components_numpy(
        np.append(a, a), np.append(b, c), int(faces.max(initial=-1)) + 1
    )
    return int(np.count_nonzero(np.bincount(label[a])))


def _all_links(edges: EdgeTable) -> NDArray[np.int64]:
    """Link each half-edge to the first of its edge, (links, 2): they belong to one fan."""
    first = np.repeat(edges.order[edges.ptr[:-1]], edges.num_faces_at_edge)
    return np.stack([first, edges.order], axis=1)[first != edges.order]


def _num_fans(faces: NDArray[np.int64], links: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of fans of faces at each vertex."""
    fan = vertex_fans(faces, links)
    vertex_of_fan = np.zeros(int(fan.max(initial=-1)) + 1, np.int64)
    vertex_of_fan[fan] = faces.ravel()
    return np.bincount(vertex_of_fan)
