"""Topological properties of a set of triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo._core.brief import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import coincident_points, connected_components_numpy

# Wedges within this angle of each other are equally flat: far above rounding, far below any angle
# that is meant.
_SAME_ANGLE = 1e-6
_MOST_FACES = 256  # at one edge: the number of pairs is quadratic
# Copies of a vertex lie within this share of the shortest edge of their faces, so that no two
# corners of a face are copies of each other.
_MOST_OF_EDGE = 0.1
_FITS = 2**31  # below it 32 bits are enough
_FINER = 4  # by how much the distance shrinks where vertices are crowded


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable:
    """Half-edges grouped by undirected edge; an edge may have any number of faces."""

    edge: NDArray[np.int64]  # (3 faces,) undirected edge of half-edge 3 f + k
    forward: NDArray[np.bool_]  # (3 faces,) runs from lower to higher vertex
    order: NDArray[np.int64]  # (3 faces,) sorted by edge, then face
    ptr: NDArray[np.int64]  # (edges + 1,) offsets of edges in `order`

    __repr__ = brief_repr

    @classmethod
    def from_faces(
        cls,
        faces: NDArray[np.int64],  # (faces, 3), distinct vertices per row
    ) -> EdgeTable:
        """Sort the half-edges of triangles."""
        tail, head = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
        low, high = np.minimum(tail, head), np.maximum(tail, head)
        # Fits into 64 bits up to 3.03e9 vertices, the root of 2**63.
        key = low * (int(high.max(initial=0)) + 1) + high
        key, order = _sort(key)
        starts = np.append(True, np.diff(key) != 0)[: len(key)]
        edge = np.empty(len(key), np.int64)
        edge[order] = np.cumsum(starts) - 1
        return cls(edge, tail < head, order, np.append(np.flatnonzero(starts), len(key)))

    @property
    def num_faces_at_edge(self) -> NDArray[np.int64]:
        """Number of faces at each edge, (edges,)."""
        return np.diff(self.ptr)

    def twins(self) -> NDArray[np.int64]:
        """Return pairs of half-edges at edges of two faces, (pairs, 2), the earlier first."""
        first = self.ptr[:-1][self.num_faces_at_edge == 2]
        return np.stack([self.order[first], self.order[first + 1]], axis=1)


def _sort(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sorted numbers that are not negative, and their positions in a stable order."""
    # Sorting the pairs of number and position as one number takes a third of the time.
    bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    both = np.sort(keys << bits | np.arange(len(keys)))
    return both >> bits, both & ((1 << bits) - 1)


class NearEdges(NamedTuple):
    """Boundary edges whose ends nearly coincide."""

    first: NDArray[np.int64]  # (vertices,) first vertex among the copies of each
    pairs: int  # edges that meet another one
    distance: float  # largest extent of the copies of a vertex


def near_boundary_edges(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3), distinct corners per face
    edges: EdgeTable,
    tolerance: float,  # largest distance of neighboring copies of a vertex
    least: float,  # distance below which vertices are merged already
) -> NearEdges:
    """Find boundary edges that are copies of each other, up to noise in their ends."""
    first = np.arange(len(points))
    alone = edges.order[edges.ptr[:-1][edges.num_faces_at_edge == 1]]
    if not len(alone):
        return NearEdges(first, 0, 0.0)
    tail, head = faces.ravel()[alone], np.roll(faces, -1, axis=1).ravel()[alone]
    ends = np.union1d(tail, head)
    is_end = np.zeros(len(points), bool)
    is_end[ends] = True
    faces = faces[is_end[faces].any(axis=1)]
    lengths = np.linalg.norm(points[faces] - points[np.roll(faces, -1, axis=1)], axis=2)
    shortest = np.full(len(points), np.inf)
    np.minimum.at(shortest, faces.ravel(), np.repeat(lengths.min(axis=1), 3))
    place, extent = _copies(points, _MOST_OF_EDGE * shortest, ends, tolerance, least)
    # Vertices alone may be close for another reason: both ends of an edge must have copies.
    swap = place[tail] > place[head]
    edge = np.stack([np.where(swap, head, tail), np.where(swap, tail, head)])
    edge = edge[:, np.lexsort(place[edge])]
    same = (np.diff(place[edge]) == 0).all(axis=0)
    one, other = edge[:, 1:][:, same].ravel(), edge[:, :-1][:, same].ravel()
    part = connected_components_numpy(one, other, len(points))
    leader = np.full(len(points), len(points))
    np.minimum.at(leader, part, first)
    return NearEdges(leader[part], int(same.sum()), float(extent[one].max(initial=0.0)))


def _copies(
    points: NDArray[np.float64],
    reach: NDArray[np.float64],  # (vertices,) largest extent of the copies of each
    active: NDArray[np.int64],  # vertices that may have copies
    tolerance: float,
    least: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the first copy of each vertex and the extent of its copies, (vertices,) each."""
    place, size = np.arange(len(points)), np.zeros(len(points))
    while len(active) and tolerance > least:
        leader = coincident_points(points[active], tolerance)
        group = np.unique(leader, return_inverse=True)[1].reshape(-1)
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        position = points[active[order]]
        box = np.maximum.reduceat(position, starts) - np.minimum.reduceat(position, starts)
        extent = np.linalg.norm(box, axis=1)
        fits = extent <= np.minimum.reduceat(reach[active[order]], starts)
        found = fits[group]
        place[active[found]] = active[leader[found]]
        size[active[found]] = extent[group[found]]
        active, tolerance = active[~found], tolerance / _FINER
    return place, size


def pair_faces(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3) after merging vertices
    loose: NDArray[np.int64],  # (faces, 3) before merging vertices
    edges: EdgeTable,
) -> NDArray[np.int64]:
    """Pair the half-edges of faces that continue each other at each edge, (pairs, 2)."""
    counts = edges.num_faces_at_edge
    # At non-manifold edges, pairs that were separate before merging come first, then neighbors
    # around the edge: pairs that all bound a solid, else the flattest, then most alike in winding.
    crowd = edges.order[np.repeat(counts > 2, counts)]
    found = [edges.twins()]
    if len(crowd):
        kept = _sole_pairs(loose, edges, crowd)
        crowd = crowd[~np.isin(crowd, kept)]
        found += [kept, _radial_pairs(points, faces, edges, crowd)]
    partner = np.full(faces.size, -1)  # of the earlier half-edge of each pair
    for one, other in (pairs.T for pairs in found):
        partner[np.minimum(one, other)] = np.maximum(one, other)
    first = np.flatnonzero(partner >= 0)
    return np.stack([first, partner[first]], axis=1)


def all_pairs(edges: EdgeTable) -> NDArray[np.int64]:
    """Pair all half-edges along each edge with each other, (pairs, 2)."""
    counts = edges.num_faces_at_edge
    if counts.max(initial=0) > _MOST_FACES:
        raise MeshError(
            f"has an edge of {counts.max()} faces, where at most {_MOST_FACES} can all meet; load "
            'it with nonmanifold="cut"'
        )
    pairs = [np.empty((0, 2), np.int64)]
    for size in np.unique(counts[counts > 1]):
        around = edges.order[edges.ptr[:-1][counts == size, None] + np.arange(size)]
        one, other = np.triu_indices(size, 1)
        pairs.append(np.stack([around[:, one], around[:, other]], axis=2).reshape(-1, 2))
    found = np.concatenate(pairs)
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def _sole_pairs(
    loose: NDArray[np.int64], edges: EdgeTable, crowd: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return pairs that were the only ones at their edge before merging, (pairs, 2)."""
    tail, head = loose.ravel()[crowd], np.roll(loose, -1, axis=1).ravel()[crowd]
    key = np.stack([edges.edge[crowd], np.minimum(tail, head), np.maximum(tail, head)])
    group = np.unique(key, axis=1, return_inverse=True)[1].reshape(-1)
    alone = np.bincount(group)[group] == 2
    return crowd[alone][np.argsort(group[alone], kind="stable")].reshape(-1, 2)


def _radial_pairs(
    points: NDArray[np.float64],
    faces: NDArray[np.int64],
    edges: EdgeTable,
    crowd: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return pairs of neighbors around each edge, (pairs, 2), grouped by edge."""
    if not len(crowd):
        return np.empty((0, 2), np.int64)
    edge = edges.edge[crowd]
    angle = _angles(points, faces, edges, crowd)
    order = np.lexsort((angle, edge))
    crowd, edge, angle = crowd[order], edge[order], angle[order]
    starts = np.flatnonzero(np.diff(edge, prepend=-1))
    sizes = np.diff(np.append(starts, len(edge)))
    pairs = []
    for size in np.unique(sizes[sizes > 1]):  # all edges of as many faces at once
        around = starts[sizes == size, None] + np.arange(size)
        chosen = _best_matching(angle[around], edges.forward[crowd[around]])
        pairs.append(crowd[np.take_along_axis(around[..., None], chosen, axis=1)].reshape(-1, 2))
    return np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)


def _angles(
    points: NDArray[np.float64],
    faces: NDArray[np.int64],
    edges: EdgeTable,
    crowd: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the angle of each face around its edge, relative to the first corner, in [0, 2 pi)."""
    flat = faces.ravel()
    tail, head = flat[crowd], np.roll(faces, -1, axis=1).ravel()[crowd]
    opposite = points[np.roll(faces, -2, axis=1).ravel()[crowd]]
    low, high = points[np.minimum(tail, head)], points[np.maximum(tail, head)]
    axis = (high - low) / np.linalg.norm(high - low, axis=1, keepdims=True)
    across = opposite - low
    across = across - (across * axis).sum(1, keepdims=True) * axis
    # Where the order begins must not depend on the order of faces.
    edge = edges.edge[crowd]
    order = np.lexsort((*opposite.T, edge))
    first = order[np.flatnonzero(np.diff(edge[order], prepend=-1))]
    reference = across[first[np.unique(edge, return_inverse=True)[1]]]
    run = (across * reference).sum(1)
    rise = (across * np.cross(axis, reference)).sum(1)
    angle = np.arctan2(rise, run) % (2 * np.pi)
    return np.where(2 * np.pi - angle < _SAME_ANGLE, 0.0, angle)


def _best_matching(angle: NDArray[np.float64], forward: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pair neighbors on the circle of each row, (rows, pairs, 2); an odd row leaves one face."""
    number = angle.shape[1]
    following = np.roll(forward, -1, axis=1)
    wedge = np.roll(angle, -1, axis=1) - angle
    wedge[:, -1] += 2 * np.pi
    # A face that runs forward has its normal on the side of larger angles.
    values = np.stack([abs(wedge - np.pi), forward == following, forward | ~following])
    # Faces around an edge are sorted by angle; wedge k lies between faces k and k + 1. A matching
    # is every second wedge: there are two for an even number n of faces, and n for an odd one, one
    # for each face that is left over. In the odd case a matching is n // 2 consecutive wedges of
    # the walk 0, 2, 4, ... modulo n, and its sums are differences of cumulative sums.
    size = number // 2
    if number % 2:
        starts = np.arange(0, 2 * number, 2) % number
        sums = np.cumsum(np.tile(values[..., starts], 2), axis=2)
        sums = np.concatenate([np.zeros((3, len(angle), 1)), sums], axis=2)
        flat, clash, hollow = sums[..., size : size + number] - sums[..., :number]
        solid = np.zeros_like(hollow, dtype=bool)  # a face is left over
    else:
        starts = np.arange(2)
        flat, clash, hollow = np.stack([values[..., n::2].sum(2) for n in starts], axis=2)
        solid = hollow == 0
    # Compared in the order solid, flatness, clashes, hollow, start: `lexsort` takes the last key
    # first.
    keys = (np.broadcast_to(starts, flat.shape), hollow, clash, np.round(flat / _SAME_ANGLE))
    best = np.lexsort((*keys, ~solid), axis=1)[:, 0]
    first = (starts[best][:, None] + 2 * np.arange(size)) % number
    return np.stack([first, (first + 1) % number], axis=2)


def vertex_fans(
    faces: NDArray[np.int64],  # (faces, 3)
    pairs: NDArray[np.int64],  # (pairs, 2) paired half-edges
) -> NDArray[np.int64]:
    """Return the fan of each corner, (3 faces,): corners of a vertex linked across paired edges."""
    flat = faces.ravel()
    one, other = pairs.T
    # Corner h starts half-edge h; the corner at its end starts the next half-edge of the face.
    one_end, other_end = _following(one), _following(other)
    same_way = flat[one] == flat[other]
    row = np.concatenate([one, one_end])
    column = np.concatenate(
        [np.where(same_way, other, other_end), np.where(same_way, other_end, other)]
    )
    return connected_components_numpy(row, column, faces.size)


def split_vertices(
    faces: NDArray[np.int64],  # (faces, 3)
    pairs: NDArray[np.int64],  # (pairs, 2) paired half-edges
    vertices: NDArray[np.bool_],  # (vertices,) which vertices to split
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign a separate vertex to each fan; return the faces and the origins of new vertices."""
    flat = faces.ravel()
    fan = vertex_fans(faces, pairs)
    first = np.unique(fan, return_index=True)[1]  # corner of each fan
    first = first[np.argsort(first, kind="stable")]
    vertex = flat[first]
    # The fan with the first corner keeps its vertex; new vertices are appended.
    later = np.ones(len(first), bool)
    later[np.unique(vertex, return_index=True)[1]] = False
    later &= vertices[vertex]
    number = vertex.copy()
    number[later] = len(vertices) + np.arange(int(later.sum()))
    of_fan = np.empty(len(first), np.int64)
    of_fan[fan[first]] = number
    return of_fan[fan].reshape(-1, 3), vertex[later]


def _following(halfedge: NDArray[np.int64]) -> NDArray[np.int64]:
    return halfedge + np.where(halfedge % 3 == 2, -2, 1)


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
        parts: int | None = None,  # connected by edges, if known
    ) -> MeshTopology:
        """Compute the topology of triangles."""
        edges = EdgeTable.from_faces(faces) if edges is None else edges
        counts = edges.num_faces_at_edge
        twins = edges.twins() if pairs is None else pairs
        # A half-edge without a partner in `pairs` is an edge of its own.
        num_edges = len(counts) if pairs is None else faces.size - len(pairs)
        used = np.bincount(faces.ravel()) > 0
        fans = _num_fans(faces, edges, twins, pairs)
        if parts is None or (fans > 1).any():  # parts may meet at vertices
            parts = num_components(faces)
        return cls(
            closed=bool((counts == 2).all()) if pairs is None else 2 * len(pairs) == faces.size,
            oriented=bool((edges.forward[twins[:, 0]] != edges.forward[twins[:, 1]]).all()),
            manifold=bool((pairs is not None or (counts <= 2).all()) and (fans <= 1).all()),
            nonmanifold_vertices=int((fans > 1).sum()),
            components=parts,
            euler=int(used.sum()) - num_edges + len(faces),
        )


def num_components(
    faces: NDArray[np.int64],  # (faces, 3)
) -> int:
    """Count the parts connected by common vertices; unused vertices do not count."""
    return int(np.count_nonzero(np.bincount(component_of_faces(faces))))


def component_of_faces(
    faces: NDArray[np.int64],  # (faces, 3)
) -> NDArray[np.int64]:
    """Return the part of each face, connected by common vertices, (faces,); numbers have gaps."""
    a, b, c = faces.T
    number = int(faces.max(initial=-1)) + 1
    return connected_components_numpy(np.append(a, a), np.append(b, c), number)[a]


def _all_links(edges: EdgeTable) -> NDArray[np.int64]:
    """Link each half-edge to the first of its edge, (links, 2): they belong to one fan."""
    first = np.repeat(edges.order[edges.ptr[:-1]], edges.num_faces_at_edge)
    return np.stack([first, edges.order], axis=1)[first != edges.order]


def _num_fans(
    faces: NDArray[np.int64],
    edges: EdgeTable,
    twins: NDArray[np.int64],  # (pairs, 2) paired half-edges
    pairs: NDArray[np.int64] | None,  # the same if vertices are ambiguous
) -> NDArray[np.int64]:
    """Return the number of fans of faces at each vertex."""
    one, other = twins.T
    is_plain = pairs is None and (edges.num_faces_at_edge <= 2).all()
    if is_plain and (edges.forward[one] != edges.forward[other]).all():
        return _num_orbits(faces.ravel(), one, other)
    fan = vertex_fans(faces, _all_links(edges) if pairs is None else pairs)
    vertex_of_fan = np.zeros(int(fan.max(initial=-1)) + 1, np.int64)
    vertex_of_fan[fan] = faces.ravel()
    return np.bincount(vertex_of_fan)


def _num_orbits(
    flat: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the same where faces continue each other consistently: ends and cycles of corners."""
    # A corner is followed by the one behind the twin of its half-edge; the last one by itself.
    start = np.arange(len(flat), dtype=np.int32 if len(flat) < _FITS else np.int64)
    following = start.copy()
    following[one], following[other] = start[_following(other)], start[_following(one)]
    is_end = following == start
    # The smallest corner of the 2, 4, 8, ... next ones, up to all of a vertex.
    smallest = start
    for _ in range((int(np.bincount(flat).max(initial=1)) - 1).bit_length()):
        smallest = np.minimum(smallest, smallest[following])
        following = following[following]
    is_first = (smallest == start) & ~is_end[following]
    return np.bincount(flat[is_end | is_first])
