"""Simplification by edge collapses."""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.repair.topology import EdgeTable, split_vertices

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
_JITTER = 0.4  # standard deviation of the random factor's logarithm on every collapse's cost
_PASSES = 3  # of the choice of collapses in one round
_SHARE = 0.5  # of all edges that a round considers, cheapest first
_BOUNDARY_WEIGHT = 10.0  # of a boundary against the faces beside it: it keeps its place
_PROGRESS = 0.01  # share of the faces to remove, after which collapses are tried again
_MIN_COSINE = 0.3  # between a face's normals before and after
_MIN_QUALITY = 0.1  # of a face after: 1 for equilateral, 0 for degenerate
_DECLINE = 0.9  # of the worst quality around, where nothing but slivers is left
_TINY = float(np.finfo(np.float64).tiny)


@overload
def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = None,
    *,
    exact: bool = True,
    return_origin: Literal[False] = False,
) -> TriangleMesh: ...


@overload
def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = ...,
    *,
    exact: bool = ...,
    return_origin: Literal[True],
) -> tuple[TriangleMesh, Tensor]: ...


def simplify(
    mesh: TriangleMesh,
    num_faces: int,
    generator: torch.Generator | None = None,
    *,
    exact: bool = True,
    return_origin: bool = False,
) -> TriangleMesh | tuple[TriangleMesh, Tensor]:
    """Collapse edges in order of quadric error until a number of faces is left.

    Euler characteristic, boundaries, parts and winding are unchanged. No face is flipped and no new
    slivers appear. Computed in float64 on the CPU. Commutes with similarities up to rounding, which
    may decide between equal costs. Reference: Garland and Heckbert, "Surface simplification using
    quadric error metrics", 1997.

    Parameters
    ----------
    mesh : TriangleMesh
        Closed or not; non-manifold or inconsistently wound ones raise ``MeshError``.
    num_faces : int
        Faces to keep. A collapse removes two, at the boundary one; closed surfaces keep an even
        number.
    generator : torch.Generator, optional
        Randomizes all costs by a factor, for other connectivity at about the same error.
    exact : bool
        Raise ``ValueError`` unless ``num_faces`` is reached; otherwise stop at the next larger
        number that can be.
    return_origin : bool
        Whether to return ``origin``, too.

    Returns
    -------
    mesh : TriangleMesh
        Without unused vertices; fans of faces that met at a vertex have separate ones. Faces keep
        their inputs.
    origin : Tensor, (num_faces,), int64
        Original index of each face, increasing; face attributes transfer by indexing with it.

    Examples
    --------
    >>> import trimesh
    >>> sphere = TriangleMesh.from_trimesh(trimesh.creation.icosphere(2))
    >>> simplify(sphere, 100, torch.Generator().manual_seed(0))
    TriangleMesh(vertices=52, faces=100)
    """
    check_mesh(mesh)
    if not 1 <= num_faces <= mesh.num_faces:
        raise ValueError(f"num_faces must be from 1 to {mesh.num_faces}, got {num_faces}")
    pairs = edge_pairs(mesh).cpu().numpy()
    faces, source = split_vertices(
        mesh.faces.cpu().numpy(), pairs, np.ones(mesh.num_vertices, bool)
    )
    vertices = mesh.vertices.cpu().numpy()
    vertices = np.concatenate([vertices, vertices[source]])
    corners = vertices[faces]  # vertices of no face could lie anywhere
    center, size = corners.mean(axis=(0, 1)), max(np.ptp(corners, axis=(0, 1)).max(), _TINY)
    vertices = (vertices - center) / size
    ambiguous = _ambiguous(faces, pairs)
    fixed = np.zeros(len(vertices), bool)
    fixed[_ends(faces)[ambiguous]] = True
    positions, simple, origin = collapse_edges(
        vertices, faces, num_faces, _numpy_generator(generator), fixed=fixed
    )
    if exact and len(simple) != num_faces:
        raise ValueError(
            f"num_faces = {num_faces} cannot be reached: collapses that keep the topology of this "
            f"surface end at {len(simple)} faces; exact=False takes that"
        )
    kept = _kept_pairs(faces, pairs, fixed, simple, origin) if ambiguous.any() else None
    device = mesh.faces.device
    chosen = torch.from_numpy(origin).to(device)
    result = TriangleMesh(
        torch.from_numpy(positions * size + center).to(device),
        torch.from_numpy(simple).to(device),
        None if kept is None else torch.from_numpy(kept).to(device),
        {name: values[chosen] for name, values in mesh.inputs.items()},
    )
    return (result, chosen) if return_origin else result


def _numpy_generator(generator: torch.Generator | None) -> np.random.Generator | None:
    if generator is None:
        return None
    seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
    return np.random.default_rng(int(seed))


def _ends(faces: Indices) -> Indices:
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)


def _ambiguous(faces: Indices, pairs: Indices) -> NDArray[np.bool_]:
    """Mark the sides of faces where vertex indices and pairs give different neighbors."""
    edges = EdgeTable.from_faces(faces)
    counts = edges.num_faces_at_edge[edges.edge]
    partners = np.bincount(pairs.reshape(-1), minlength=faces.size)
    start = faces.reshape(-1)
    same_way = np.zeros(faces.size, bool)
    runs_along = np.equal(start[pairs[:, 0]], start[pairs[:, 1]])
    same_way[pairs[runs_along]] = True
    differs: NDArray[np.bool_] = (counts - 1 != partners) | (counts > 2) | same_way
    return differs


def _kept_pairs(
    faces: Indices, pairs: Indices, fixed: NDArray[np.bool_], simple: Indices, origin: Indices
) -> Indices:
    """Keep the pairs between fixed vertices and match all others by vertex indices."""
    number = np.full(len(faces), -1)
    number[origin] = np.arange(len(origin))
    start, end = _ends(faces).T
    stays = fixed[start] & fixed[end]
    old = pairs[stays[pairs].all(axis=1)]
    taken = 3 * number[old // 3] + old % 3
    settled = stays.reshape(-1, 3)[origin].reshape(-1)
    twins = EdgeTable.from_faces(simple).twins()
    return np.concatenate([taken, twins[~settled[twins[:, 0]]]])


def collapse_edges(
    vertices: Array,  # (vertices, 3)
    faces: Indices,  # (faces, 3): manifold, oriented, one fan per vertex; not checked
    count: int,
    generator: np.random.Generator | None = None,  # random factors of the costs
    *,
    fixed: Mask | None = None,  # (vertices,) vertices that keep their edges
    edge_weight: float = 1e-2,  # weight of squared length; larger: more uniform faces
) -> tuple[Array, Indices, Indices]:
    """Collapse edges until ``count`` faces are left; return vertices, faces and face origins."""
    # Quadric error: Garland and Heckbert, 1997. Link condition, which preserves the topology: Dey,
    # Edelsbrunner, Guha and Nekhayev, "Topology preserving edge contraction", 1999.
    vertices = vertices.copy()
    origin = np.arange(len(faces))
    quadrics = _vertex_quadrics(vertices, faces)
    none = np.empty(0, dtype=np.int64)
    put_off, before, is_lenient = none, len(faces), False
    is_closed = not _lacks_twin(_half_edges(faces), len(vertices)).any()  # and stays so
    while len(faces) > count:
        links = _links(faces, len(vertices), is_closed)
        surplus = len(faces) - count
        candidates = _candidates(
            vertices, quadrics, links, put_off, surplus, generator, fixed, edge_weight
        )
        if not len(candidates.edges):
            # Rejected collapses are tried again after others have moved, then by the weaker rule.
            has_moved = before - len(faces) > _PROGRESS * surplus
            if not len(put_off) or (is_lenient and not has_moved):
                break
            put_off, before, is_lenient = none, len(faces), is_lenient or not has_moved
            continue
        chosen = _independent(candidates, links.half_edges, len(vertices), surplus)
        bad = _spoils(chosen, vertices, faces, is_lenient)
        put_off = np.concatenate([put_off, _keys(chosen.edges[bad], len(vertices))])
        faces, kept = _collapse(chosen, ~bad, vertices, quadrics, faces)
        origin = origin[kept]
    used, faces = np.unique(faces, return_inverse=True)
    return vertices[used], faces.reshape(-1, 3), origin


class _Collapses(NamedTuple):
    """Candidate edges with the position of the merged vertex and the number of removed faces."""

    edges: Indices
    positions: Array
    removed: Indices


class _Links(NamedTuple):
    """Edges in both directions, with the data of the link condition."""

    half_edges: Indices
    on_boundary: Mask
    is_boundary: Mask


def _vertex_quadrics(vertices: Array, faces: Indices) -> Array:
    """Sum the area-weighted squared distances to the planes around each vertex, (n, 4, 4)."""
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubled = np.linalg.norm(normals, axis=1, keepdims=True)
    normals /= np.maximum(doubled, _TINY)
    # A third of the area to each corner: the norm of the cross product is twice the area.
    per_face = _squared_planes(doubled[:, 0] / 6, normals, corners[:, 0])
    spread = _incidence(faces, len(vertices))
    quadrics: Array = (spread @ per_face.reshape(-1, 16)).reshape(-1, 4, 4)
    return quadrics + _boundary_quadrics(vertices, faces, normals)


def _squared_planes(weights: Array, normals: Array, points: Array) -> Array:
    planes = np.concatenate([normals, -np.sum(normals * points, 1, keepdims=True)], axis=1)
    return weights[:, None, None] * planes[:, :, None] * planes[:, None, :]


def _boundary_quadrics(vertices: Array, faces: Indices, normals: Array) -> Array:
    """Sum the squared distances to planes through boundary edges, perpendicular to their faces."""
    half_edges, number = _half_edges(faces), len(vertices)
    alone = _lacks_twin(half_edges, number)
    ends, normals = half_edges[alone], np.tile(normals, (3, 1))[alone]
    along = vertices[ends[:, 1]] - vertices[ends[:, 0]]
    squares = np.sum(along**2, axis=1)
    upright = np.cross(normals, along) / np.sqrt(np.maximum(squares, _TINY))[:, None]
    per_edge = _squared_planes(_BOUNDARY_WEIGHT * squares, upright, vertices[ends[:, 0]])
    spread = _incidence(ends, number)
    quadrics: Array = (spread @ per_edge.reshape(-1, 16)).reshape(-1, 4, 4)
    return quadrics


def _incidence(rows: Indices, number: int) -> scipy.sparse.csr_matrix:
    """Return the incidence matrix from faces, or edges, to the vertices in their rows."""
    columns = np.repeat(np.arange(len(rows)), rows.shape[1])
    return scipy.sparse.csr_matrix(
        (np.ones(rows.size), (rows.reshape(-1), columns)), (number, len(rows))
    )


def _half_edges(faces: Indices) -> Indices:
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def _keys(edges: Indices, number: int) -> Indices:
    return edges[:, 0] * number + edges[:, 1]


def _lacks_twin(half_edges: Indices, number: int) -> Mask:
    keys = _keys(half_edges, number)
    return ~np.isin(_keys(half_edges[:, ::-1], number), keys)


def _links(faces: Indices, number: int, is_closed: bool) -> _Links:
    half_edges = _half_edges(faces)
    alone = np.zeros(len(half_edges), bool) if is_closed else _lacks_twin(half_edges, number)
    on_boundary = np.zeros(number, bool)
    on_boundary[half_edges[alone]] = True
    backwards = half_edges[alone][:, ::-1]
    is_boundary = np.concatenate([alone, np.ones(len(backwards), bool)])
    return _Links(np.concatenate([half_edges, backwards]), on_boundary, is_boundary)


def _candidates(
    vertices: Array,
    quadrics: Array,
    links: _Links,
    put_off: Indices,
    surplus: int,
    generator: np.random.Generator | None,
    fixed: Mask | None,
    edge_weight: float,
) -> _Collapses:
    """Return the cheapest edges that satisfy the link condition, cheapest first."""
    allowed = _satisfies_link_condition(links, len(vertices))
    edges, removed = links.half_edges, np.where(links.is_boundary, 1, 2)
    allowed &= (edges[:, 0] < edges[:, 1]) & (removed <= surplus)
    if len(put_off):
        allowed &= ~np.isin(_keys(edges, len(vertices)), put_off)
    if fixed is not None:
        allowed &= ~fixed[edges].any(axis=1)
    edges, removed = edges[allowed], removed[allowed]
    sums = quadrics[edges[:, 0]] + quadrics[edges[:, 1]]
    start, end = vertices[edges[:, 0]], vertices[edges[:, 1]]
    positions, errors = _best_positions(sums, (start + end) / 2)
    squares = np.sum((start - end) ** 2, axis=1)
    costs = errors + edge_weight * squares**2
    if generator is not None:
        costs *= np.exp(_JITTER * generator.standard_normal(len(costs)))
    order = np.argsort(costs, kind="stable")[: max(1, int(_SHARE * len(costs)))]
    return _Collapses(edges[order], positions[order], removed[order])


def _satisfies_link_condition(links: _Links, number: int) -> Mask:
    """Return whether the ends of each edge have exactly the two apexes as common neighbors."""
    start, end = links.half_edges.T
    ones = np.ones(len(start), dtype=np.int32)
    neighbours = scipy.sparse.csr_matrix((ones, (start, end)), (number, number))
    common = np.asarray((neighbours @ neighbours)[start, end]).reshape(-1)
    # A boundary counts as closed by faces to one additional vertex.
    common = common + (links.on_boundary[start] & links.on_boundary[end])
    degrees = np.bincount(start, minlength=number) + links.on_boundary
    # Two ends of degree 3 lie on a tetrahedron, or a single triangle with the additional vertex.
    return (common == 2) & ((degrees[start] > 3) | (degrees[end] > 3))


def _best_positions(quadrics: Array, middles: Array) -> tuple[Array, Array]:
    """Minimize each quadric, with a small weight on the midpoint for flat regions."""
    matrices, vectors = quadrics[:, :3, :3], quadrics[:, :3, 3]
    # A hundredth of the quadric's own size: in a plane its matrix is singular.
    size = np.trace(matrices, axis1=1, axis2=2)
    pull = 1e-2 * np.where(size > 0, size, 1.0)[:, None, None] * np.eye(3)
    right = -vectors[:, :, None] + pull @ middles[:, :, None]
    positions = np.asarray(np.linalg.solve(matrices + pull, right)[:, :, 0], np.float64)
    homogeneous = np.concatenate([positions, np.ones((len(positions), 1))], axis=1)
    errors: Array = np.einsum("ei,eij,ej->e", homogeneous, quadrics, homogeneous)
    return positions, np.maximum(errors, 0.0)


def _independent(
    candidates: _Collapses, half_edges: Indices, number: int, surplus: int
) -> _Collapses:
    """Choose the cheapest collapses such that no end of one is adjacent to an end of another."""
    edges = candidates.edges
    ranks = np.arange(len(edges))
    live, chosen = np.ones(len(edges), bool), np.zeros(len(edges), bool)
    # A collapse then leaves the neighbors of other ends unchanged, so their link conditions still
    # hold.
    for _ in range(_PASSES):
        touching = np.full(number, len(edges))
        np.minimum.at(touching, edges[live].reshape(-1), np.repeat(ranks[live], 2))
        nearby = touching.copy()
        np.minimum.at(nearby, half_edges[:, 0], touching[half_edges[:, 1]])
        new = live & (nearby[edges].min(axis=1) == ranks)
        chosen |= new
        blocked = np.zeros(number, bool)
        blocked[edges[new]] = True
        blocked[half_edges[blocked[half_edges[:, 0]], 1]] = True
        live &= ~blocked[edges].any(axis=1)
    kept = np.flatnonzero(chosen)
    kept = kept[np.cumsum(candidates.removed[kept]) <= surplus]
    return _Collapses(edges[kept], candidates.positions[kept], candidates.removed[kept])


def _spoils(chosen: _Collapses, vertices: Array, faces: Indices, is_lenient: bool) -> Mask:
    """Return which collapses flip a face or create a sliver."""
    owner = np.full(len(vertices), -1)
    owner[chosen.edges] = np.arange(len(chosen.edges))[:, None]
    moved = vertices.copy()
    moved[chosen.edges] = chosen.positions[:, None]
    owners = owner[faces]
    owned = (owners >= 0).sum(axis=1)
    owners, faces, owned = (a[owned > 0] for a in (owners.max(axis=1), faces, owned))
    before, was = _normals_and_quality(vertices[faces])
    after, quality = _normals_and_quality(moved[faces])
    folds = np.sum(before * after, axis=1) < _MIN_COSINE
    is_sliver = quality < _MIN_QUALITY
    if is_lenient:
        worst = np.ones(len(chosen.edges))
        np.minimum.at(worst, owners, was)
        is_sliver &= quality < _DECLINE * worst[owners]
        folds &= was > 0  # without area, a face has no side
    bad = np.zeros(len(chosen.edges), bool)
    bad[owners[(folds | is_sliver) & (owned == 1)]] = True  # of two corners, a face disappears
    return bad


def _normals_and_quality(corners: Array) -> tuple[Array, Array]:
    sides = np.roll(corners, -1, axis=1) - corners
    normals = np.cross(sides[:, 0], sides[:, 1])
    doubled = np.linalg.norm(normals, axis=1)
    squares: Array = np.sum(sides**2, axis=(1, 2))
    # 4 sqrt(3) area over the sum of squared sides, the usual measure: 1 for equilateral triangles.
    quality: Array = 2 * 3**0.5 * doubled / (squares + _TINY)
    return normals / (doubled[:, None] + _TINY), quality


def _collapse(
    chosen: _Collapses, good: Mask, vertices: Array, quadrics: Array, faces: Indices
) -> tuple[Indices, Mask]:
    """Merge the ends of the valid collapses in place and return the remaining faces."""
    kept, gone = chosen.edges[good].T
    vertices[kept] = chosen.positions[good]
    quadrics[kept] += quadrics[gone]
    target = np.arange(len(vertices))
    target[gone] = kept
    faces = target[faces]
    a, b, c = faces.T
    remains = (a != b) & (b != c) & (c != a)
    return faces[remains], remains
