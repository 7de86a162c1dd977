"""Closed, oriented, manifold: what a set of triangles is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.connected_components import connected_components_numpy
from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.split_vertices import vertex_fans


@dataclass(frozen=True)
class MeshTopology:
    """Topological facts about a mesh.

    Parameters
    ----------
    closed : bool
        Every edge has exactly two faces.
    oriented : bool
        The two faces of every edge run along it in opposite directions.
    manifold : bool
        No edge has more than two faces and no vertex more than one fan of faces.
    nonmanifold_vertices : int
        Vertices at which several fans meet.
    components : int
        Parts connected by common vertices.
    euler : int
        Euler characteristic: vertices in use, less edges, plus faces. 2 for a sphere.

    Examples
    --------
    >>> tetrahedron = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> topology = MeshTopology.from_faces(tetrahedron)
    >>> topology.closed, topology.oriented, topology.manifold, topology.euler
    (True, True, True, 2)
    """

    closed: bool
    oriented: bool
    manifold: bool
    nonmanifold_vertices: int
    components: int
    euler: int

    @classmethod
    def from_faces(
        cls,
        faces: NDArray[np.int64],
        edges: EdgeTable | None = None,
        pairs: NDArray[np.int64] | None = None,
    ) -> MeshTopology:
        """Measure a mesh.

        Parameters
        ----------
        faces : ndarray, (faces, 3), int64
            Vertex indices, three different ones in each row.
        edges : EdgeTable, optional
            Their edges, where already known.
        pairs : ndarray, (pairs, 2), int64, optional
            Half-edges that meet, each in one pair at most, where vertices do not tell: faces that
            are in no pair may have an edge of the same two vertices each for itself.

        Returns
        -------
        MeshTopology
            The facts.
        """
        edges = EdgeTable.from_faces(faces) if edges is None else edges
        counts = edges.num_faces_at_edge
        twins = edges.twins() if pairs is None else pairs
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


def num_components(faces: NDArray[np.int64]) -> int:
    """Count the parts that common vertices connect.

    Parameters
    ----------
    faces : ndarray, (faces, 3), int64
        Vertex indices.

    Returns
    -------
    int
        Number of parts; vertices without a face are none.

    Examples
    --------
    >>> num_components(np.array([[0, 1, 2], [4, 5, 6], [2, 3, 0]]))
    2
    """
    a, b, c = faces.T
    label = connected_components_numpy(
        np.append(a, a), np.append(b, c), int(faces.max(initial=-1)) + 1
    )
    return int(np.count_nonzero(np.bincount(label[a])))


def _all_links(edges: EdgeTable) -> NDArray[np.int64]:
    """Each half-edge with the first of its edge: one fan, as they touch, (links, 2)."""
    first = np.repeat(edges.order[edges.ptr[:-1]], edges.num_faces_at_edge)
    return np.stack([first, edges.order], axis=1)[first != edges.order]


def _num_fans(faces: NDArray[np.int64], links: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fans of faces at each vertex."""
    fan = vertex_fans(faces, links)
    vertex_of_fan = np.zeros(int(fan.max(initial=-1)) + 1, np.int64)
    vertex_of_fan[fan] = faces.ravel()
    return np.bincount(vertex_of_fan)
