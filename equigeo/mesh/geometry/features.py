"""Invariant features of faces and of pairs of adjacent faces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.geometry.orient import Surface
from equigeo.mesh.geometry.triangle_mesh import vectors_of

# Over the square root of the area; a sphere has radius 0.28. The smallest is twice an edge of a
# mesh of 1000 faces, so that a ball holds a dozen of them.
BALL_RADII: Final = (0.08, 0.16, 0.32, 0.64)
_PER_RADIUS: Final = 7
BALL_CHANNELS: Final = _PER_RADIUS * len(BALL_RADII) + 1
_SPACING = 0.05  # of the points on a face, over the square root of the area
_MOST_PIECES = 4.0  # along an edge, over those along the edge of an equilateral face of that area
_LARGEST = 8192  # points that are compared with all others
_CELL = 0.02  # side of the cells that larger meshes are gathered in, a quarter of the least radius
_NEIGHBOURS = 4  # cells between which a face of a larger mesh interpolates
_FACES = 2**15  # at once, so that temporary tensors stay in a processor's cache
_CHUNK = 2**17  # pairs at once: a megabyte, which stays in a processor's cache
# Area over mean area, or over that of a disc, clamped before the logarithm: smaller faces add
# nothing to a mean over the surface, and their areas may be rounding errors.
_LEAST_AREA = 1e-4

# Variance over the squared radius, added before the root, which would make 1e-7 of a rounding
# error of 1e-14. Points within three thousandths of a radius of a plane count as flat.
_LEAST_VARIANCE = 1e-5

# Volume over the power 3/2 of the area, clamped before the logarithm; a sphere has 0.094.
_LEAST_VOLUME = 1e-6

_LEAST_LEAD = 1e-9  # over the radius: far above rounding, far below any bend that is meant

FeatureSet = Literal["invariant", "reference", "multiscale"]
SizeName = Literal["area", "volume", "length"]


def feature_channels(
    dual: DualKind,
    features: FeatureSet,
    sizes: Sequence[SizeName] = (),
    inputs: Sequence[str] = (),
) -> tuple[int, int]:
    """Return the numbers of primal and dual channels of :func:`compute_features`."""
    primal = edge = BALL_CHANNELS
    if features != "multiscale":
        angle = 2 if features == "invariant" else 1
        primal, edge = 1, angle + (6 if dual is DualKind.SINGLE else 3)
    own = len(inputs) - len(vectors_of(inputs))
    return primal + own + len(sizes), edge + own


def compute_features(
    surface: Surface,
    dual: DualKind,
    features: FeatureSet,
    sizes: Sequence[SizeName] = (),
    inputs: Sequence[str] = (),
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Compute primal (faces, channels) and dual (dual nodes, channels) node features."""
    if features not in get_args(FeatureSet):
        raise ValueError(f"features must be one of {get_args(FeatureSet)}, got {features!r}")
    x_primal, x_dual = _shape_features(surface, dual, features, dtype)
    if inputs:
        own = invariant_inputs(surface, inputs)
        x_primal = torch.cat((x_primal, own), dim=1)
        x_dual = torch.cat((x_dual, _of_pairs(own, surface, dual)), dim=1)
    if sizes:
        x_primal = torch.cat((x_primal, log_sizes(surface, sizes)[surface.face_batch]), dim=1)
    return x_primal.to(dtype), x_dual.to(dtype)


def invariant_inputs(surface: Surface, names: Sequence[str]) -> Tensor:
    """Return scalars, and the normal component and the norm of vectors, (faces, channels)."""
    if surface.inputs is None:
        raise ValueError(f"the surface has no inputs {names}")
    values = dict(zip(names, surface.inputs.unbind(1), strict=True))
    corner = surface.vertices[surface.faces]
    edge = corner[:, 1:] - corner[:, :1]
    normal = torch.nn.functional.normalize(torch.linalg.cross(edge[:, 0], edge[:, 1]), eps=0)
    for x, y, z in vectors_of(names):
        vector = torch.stack([values[x], values[y], values.pop(z)], dim=1)
        values[x] = (vector * normal.nan_to_num()).sum(dim=1)
        values[y] = torch.linalg.vector_norm(vector, dim=1)
    return torch.stack([*values.values()], dim=1)


def log_sizes(surface: Surface, sizes: Sequence[SizeName]) -> Tensor:
    """Return logarithms of sizes, (meshes, sizes): invariant to rotation and translation."""
    # The length is the root mean square distance of the surface from its center.
    unknown = sorted(set(sizes) - {*get_args(SizeName)})
    if unknown:
        raise ValueError(f"sizes must be among {get_args(SizeName)}, got {unknown}")
    batch, number = surface.face_batch, surface.num_meshes
    vertices, exponent = _scaled(surface)
    corner = vertices[surface.faces]
    edge = corner[:, 1:] - corner[:, :1]
    normal = torch.linalg.cross(edge[:, 0], edge[:, 1]) / 2
    area = torch.linalg.vector_norm(normal, dim=1)
    tiny = torch.finfo(area.dtype).tiny

    def over_mesh(x: Tensor) -> Tensor:
        return x.new_zeros(number, *x.shape[1:]).index_add(0, batch, x)

    total = over_mesh(area).clamp_min(tiny)
    center = over_mesh(area[:, None] * corner.mean(dim=1)) / total[:, None]
    corner = corner - center[batch, None]
    # Exact over a triangle: the mean of the squares of the middles of its edges.
    squares = (corner + corner.roll(-1, dims=1)).square().sum(dim=2).mean(dim=1) / 4
    volume = over_mesh((normal * corner[:, 0]).sum(dim=1)).abs() / 3
    unit = exponent * math.log(2)
    whole = total.log() + 2 * unit
    logs = {
        "area": whole,
        "volume": (volume / total**1.5).clamp_min(_LEAST_VOLUME).log() + 1.5 * whole,
        "length": (over_mesh(area * squares) / total).clamp_min(tiny).log() / 2 + unit,
    }
    return torch.stack([logs[name] for name in sizes], dim=1)


def _of_pairs(x: Tensor, surface: Surface, dual: DualKind) -> Tensor:
    """Return the mean of the two faces of each pair, or the source face per direction."""
    edges = surface.edges()
    if dual is not DualKind.SINGLE:
        return x[edges].flatten(0, 1)
    mean = x.new_empty(len(edges), x.shape[1])
    for begin in range(0, len(edges), _FACES):  # temporary tensors stay in the cache
        some = edges[begin : begin + _FACES]
        mean[begin : begin + _FACES] = (x[some[:, 0]] + x[some[:, 1]]) / 2
    return mean


def _shape_features(
    surface: Surface, dual: DualKind, features: FeatureSet, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    # "reference" follows PD-MeshNet: area share; dihedral angle and the edge/height and edge/edge
    # ratios of both sides, the side with the smaller edge/height ratio first. "invariant" uses
    # symmetric functions, logarithms, and cosine and sine.
    if features == "multiscale":
        # Not in float64: pairs have half the memory. Not in half precision: means are rounded.
        x_primal = ball_features(surface, torch.promote_types(dtype, torch.float32))
        return x_primal, _of_pairs(x_primal, surface, dual)
    geometry = HalfEdgeGeometry.measure(_scaled(surface)[0], surface.faces)
    angle = geometry.dihedral_angle(surface.pairs)[:, None]
    if features == "invariant":
        # The normal of a face without area is rounding, and so is an angle with it.
        sure = geometry.sureness[surface.pairs // 3].prod(dim=1, keepdim=True)
        angle = torch.cat((angle.cos(), angle.sin()), 1) * sure
    two_sides = _sides(geometry, features).reshape(-1, 3)[surface.pairs]
    if dual is not DualKind.SINGLE:
        # Angle and ratios in the source face, (pairs, 2, channels); node 2u starts below.
        x_dual = torch.cat((angle[:, None].expand(-1, 2, -1), two_sides), dim=-1)
    elif features == "invariant":
        difference = (two_sides[:, 0] - two_sides[:, 1]).abs()
        x_dual = torch.cat((angle, two_sides.mean(dim=1), difference), dim=1)
    else:
        x_dual = torch.cat((angle, _ordered_pair(two_sides)), dim=1)
    x_dual = surface.mean_over_edges(x_dual.flatten(1)).reshape(-1, x_dual.shape[-1])
    share = _area_share(surface, geometry.area)
    if features == "invariant":
        # Area over mean area: share times number of faces.
        count = torch.bincount(surface.face_batch, minlength=surface.num_meshes)
        share = (share * count[surface.face_batch, None]).clamp_min(_LEAST_AREA).log()
    return share, x_dual


def _scaled(surface: Surface) -> tuple[Tensor, Tensor]:
    """Divide positions by a power of two near the longest edge; return its exponent per mesh."""
    corner = surface.vertices[surface.faces]
    longest = (corner.roll(-1, dims=1) - corner).abs().amax((1, 2))
    largest = longest.new_zeros(surface.num_meshes)
    largest = largest.scatter_reduce(0, surface.face_batch, longest, "amax")
    exponent = torch.frexp(largest).exponent.clamp(-1000, 1000)
    # Exact, so that features have the same bits at every scale.
    return torch.ldexp(surface.vertices, -exponent[surface.vertex_batch, None]), exponent


def _area_share(surface: Surface, area: Tensor) -> Tensor:
    """Return the area of each face over that of its mesh, (faces, 1)."""
    tiny = torch.finfo(area.dtype).tiny  # a face without area must not become log 0
    total = area.new_zeros(surface.num_meshes).index_add(0, surface.face_batch, area)
    return (area.clamp_min(tiny) / total.clamp_min(tiny)[surface.face_batch])[:, None]


def _sides(geometry: HalfEdgeGeometry, features: FeatureSet) -> Tensor:
    """Return edge/height and the two edge/edge ratios per half-edge, (faces, 3, 3)."""
    previous, following = geometry.edge_edge_ratios()
    if features == "reference":
        return torch.stack((geometry.edge_height_ratio(), previous, following), dim=-1)
    # A mirror image exchanges the previous and the next edge; smaller and larger stay what they
    # are. The logarithm makes a ratio and its inverse opposite numbers.
    smaller, larger = torch.minimum(previous, following), torch.maximum(previous, following)
    return torch.stack((geometry.edge_height_ratio(), smaller, larger), dim=-1).log()


def _ordered_pair(two_sides: Tensor) -> Tensor:
    """Return ratios on the side of the smaller edge/height and on the other, (pairs, 6)."""
    lower, higher = two_sides.unbind(1)
    lower_first = (lower[:, 0] < higher[:, 0])[:, None]
    first = torch.where(lower_first, lower, higher)
    second = torch.where(lower_first, higher, lower)
    return torch.stack((first, second), dim=-1).reshape(-1, 6)


def ball_features(surface: Surface, dtype: torch.dtype = torch.float64) -> Tensor:
    """Measure the surface in balls of four radii around each face center, (faces, 29)."""
    # Pottmann et al., "Integral invariants for robust geometry processing", 2009. Invariant to
    # rotation, translation and scale, and to reflection of a surface wound by `orient`.
    corner = surface.vertices.detach().double()[surface.faces]
    counts = torch.bincount(surface.face_batch, minlength=surface.num_meshes).tolist()
    found = [_of_one_mesh(part, dtype) for part in corner.split(counts)]
    return found[0] if len(found) == 1 else torch.cat(found)


class _Points(NamedTuple):
    """Points of a surface with the integrals of the area around each."""

    position: Tensor  # (points, 3)
    moments: Tensor  # (points, 16) area, area x, area n and area x xᵀ


class _Parts(NamedTuple):
    """Parts of faces, by their centers."""

    position: Tensor  # (parts, 3)
    area: Tensor  # (parts, 4) area and area n

    def moments(self) -> Tensor:
        """Return the moments of :class:`_Points`."""
        position, (share, moment) = self.position, self.area.split((1, 3), dim=1)
        squares = (position[:, :, None] * position[:, None, :]).flatten(1)
        return torch.cat((share, share * position, moment, share * squares), dim=1)


def _of_one_mesh(corner: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the features of the faces with corners (faces, 3, 3), which are overwritten."""
    if len(corner):  # over the extent, so that no area leaves the range of numbers
        corner -= corner.mean(dim=(0, 1))
        extent = torch.maximum(corner.amax(), -corner.amin())
        corner /= extent.clamp_min(torch.finfo(corner.dtype).tiny)
    moment = torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]) / 2
    area = torch.linalg.vector_norm(moment, dim=1)
    total = area.sum()
    if not bool(total > 0):
        return corner.new_zeros(len(corner), BALL_CHANNELS, dtype=dtype)
    share = area / total
    centres = corner.mean(dim=1)
    centre = share @ centres
    corner -= centre
    corner /= total.sqrt()
    centres = (centres - centre) / total.sqrt()
    parts = _divide(corner, share, moment / total)
    if len(parts.position) <= _LARGEST:
        return _measure(centres, _Points(parts.position, parts.moments())).to(dtype)
    cells = _gather(parts)
    if len(centres) <= _LARGEST:
        return _measure(centres, cells).to(dtype)
    chosen = centres[_nearest_each(centres, cells.position)]
    return _interpolate(chosen, _measure(chosen, cells), centres, dtype)


def _divide(corner: Tensor, share: Tensor, moment: Tensor) -> _Parts:
    """Divide each face into congruent parts, k² for k pieces per edge."""
    # Some faces at a time: for a million, most of the time would go into new memory.
    parts = list(zip(corner.split(_FACES), share.split(_FACES), moment.split(_FACES), strict=True))
    pieces = [_pieces(part[0], part[1]) for part in parts]
    counts = [int(n.square().sum()) for n in pieces]
    found = _Parts(*(corner.new_empty(sum(counts), width) for width in (3, 4)))
    slots = zip(*(x.split(counts) for x in found), strict=True)
    for slot, part, number in zip(slots, parts, pieces, strict=True):
        for place, some in zip(slot, _divide_some(*part, number), strict=True):
            place.copy_(some)
    return found


def _pieces(corner: Tensor, share: Tensor) -> Tensor:
    """Return the number of pieces per edge of each face, (faces,)."""
    longest = torch.linalg.vector_norm(corner.roll(-1, dims=1) - corner, dim=2).amax(dim=1)
    # The edge of an equilateral triangle of the same area bounds the parts of slivers.
    equilateral = (share * (4 / math.sqrt(3))).sqrt()
    pieces = torch.minimum(longest, _MOST_PIECES * equilateral) / _SPACING
    return (pieces * (1 - 1e-9)).ceil().clamp_min(1).long()  # rounding decides no tie


def _divide_some(corner: Tensor, share: Tensor, moment: Tensor, pieces: Tensor) -> _Parts:
    edge = corner.roll(-1, dims=1) - corner
    parts = pieces.square()
    face = torch.repeat_interleave(parts)
    place = torch.arange(len(face), device=face.device) - (parts.cumsum(0) - parts)[face]
    # Row r, from corner 0 on, has 2 r + 1 parts, r + 1 the right way up and r upside down.
    row = (place.double() + 0.5).sqrt().floor()
    step = place - row.square()
    column, down = (step / 2).floor(), (step % 2)
    along = (row + (2 - down) / 3) / pieces[face]
    across = (column + (1 + down) / 3) / pieces[face]
    position = corner[face, 0] + along[:, None] * edge[face, 0] + across[:, None] * edge[face, 1]
    area = torch.cat((share[:, None], moment), dim=1) / parts[:, None]
    return _Parts(position, area[face])


def _gather(parts: _Parts) -> _Points:
    """Sum the moments of the parts in each cell of a grid along the principal axes."""
    kept = parts.area[:, 0] > 0
    if not bool(kept.all()):
        parts = _Parts(*(x[kept] for x in parts))
    position, area = parts
    _, axes = torch.linalg.eigh((position * area[:, :1]).mT @ position)
    place, cell = _distinct((position @ axes / _CELL).floor().clamp(-1e15, 1e15).long())
    while len(place) > _LARGEST:  # cells of twice the side
        place, coarse = _distinct(place.div(2, rounding_mode="floor"))
        cell = coarse[cell]
    sums = position.new_zeros(len(place), 16)
    for some in zip(cell.split(_FACES), *(x.split(_FACES) for x in parts), strict=True):
        sums.index_add_(0, some[0], _Parts(*some[1:]).moments())
    return _Points(sums[:, 1:4] / sums[:, :1], sums)


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of integers (n, 3) in order, and the number of each row's."""
    low = rows.amin(dim=0)
    size = (rows.amax(dim=0) - low + 1).tolist()
    if math.prod(size) >= 2**63:
        return rows.unique(dim=0, return_inverse=True)
    x, y, z = (rows - low).unbind(1)
    code = (x * size[1] + y) * size[2] + z
    if math.prod(size) <= 16 * len(rows):  # a table takes a fifth of the time of sorting
        known = torch.zeros(math.prod(size), dtype=torch.bool, device=rows.device)
        known[code] = True
        key, number = known.nonzero().squeeze(1), (known.cumsum(0) - 1)[code]
    else:
        key, number = code.unique(return_inverse=True)
    parts = key // (size[1] * size[2]), key // size[2] % size[1], key % size[2]
    return torch.stack(parts, dim=1) + low, number


def _measure(centres: Tensor, points: _Points) -> Tensor:
    """Return all channels at the centers, (centers, 29)."""
    channels = []
    for radius, sums in zip(BALL_RADII, _ball_sums(centres, points), strict=True):
        share = sums[:, :1].clamp_min(torch.finfo(sums.dtype).tiny)
        disc = (sums[:, 0] * (3 / (math.pi * radius**2))).clamp_min(_LEAST_AREA).log()
        mean, normal = sums[:, 1:4] / share, sums[:, 4:7] / share
        squares = (sums[:, 7:] / share).unflatten(1, (3, 3))
        variance = torch.linalg.eigvalsh(squares - mean[:, :, None] * mean[:, None, :])
        lead = (mean - centres) / radius
        turned = (lead * normal).sum(dim=1)
        steep, away = (torch.linalg.vector_norm(x, dim=1) for x in (normal, lead))
        # On flat faces these are rounding errors, which standardization would turn into features.
        turned, away = (torch.where(x.abs() > _LEAST_LEAD, x, 0.0) for x in (turned, away))
        channels += [disc, turned, steep, away]
        flat = (variance / radius**2).clamp_min(0) + _LEAST_VARIANCE
        channels += flat.sqrt().unbind(1)
    channels.append(torch.linalg.vector_norm(centres, dim=1))
    return torch.stack(channels, dim=1)


def _ball_sums(centres: Tensor, points: _Points) -> list[Tensor]:
    """Sum the moments in the ball of each radius around each center, weighted by (1 - d² / r²)²."""
    across = points.position.mT.contiguous()
    squares = across.square().sum(dim=0)
    sums: list[list[Tensor]] = [[] for _ in BALL_RADII]
    for part in centres.split(max(1, _CHUNK // len(squares))):
        whole = squares + part.square().sum(dim=1, keepdim=True)
        distance = torch.addmm(whole, part, across, alpha=-2)  # squared
        for found, radius in zip(sums, BALL_RADII, strict=True):
            weight = (distance * (-1 / radius**2)).add_(1).clamp_(0, 1).square_()
            found.append(weight @ points.moments)
    return [torch.cat(found) for found in sums]


def _nearest_each(candidates: Tensor, places: Tensor) -> Tensor:
    """Return the indices of the candidates nearest to each place, each index once."""
    # Building a tree of a million points takes longer than a few queries.
    options = {"balanced_tree": False, "compact_nodes": False}
    tree = scipy.spatial.cKDTree(candidates.cpu().numpy(), **options)
    _, near = tree.query(places.cpu().numpy())
    return torch.from_numpy(near).to(candidates.device).unique()


def _interpolate(places: Tensor, values: Tensor, wanted: Tensor, dtype: torch.dtype) -> Tensor:
    """Average over the nearest places, weighted by the inverse squared distance."""
    tree = scipy.spatial.cKDTree(places.cpu().numpy())
    count = min(_NEIGHBOURS, len(places))
    known = values.numpy(force=True)
    average = values.new_empty(len(wanted), values.shape[1], dtype=dtype)
    for some, found in zip(wanted.split(_FACES), average.split(_FACES), strict=True):
        distance, near = tree.query(some.cpu().numpy(), k=range(1, count + 1))
        # What is a thousandth of a cell away is there.
        weight = 1 / (torch.from_numpy(distance).to(wanted).square() + (1e-3 * _CELL) ** 2)
        weight = weight / weight.sum(dim=1, keepdim=True)
        ends = np.arange(0, near.size + 1, count)
        rows = scipy.sparse.csr_array(
            (weight.numpy(force=True).ravel(), near.ravel(), ends), (len(near), len(places))
        )
        found.copy_(torch.from_numpy(rows @ known))
    return average


@dataclass(frozen=True, eq=False)
class AreaShares:
    """Area of each node over the area of its mesh."""

    primal: Tensor  # (primal nodes,) float64: sums to 1 per mesh
    dual: Tensor  # (dual nodes,) float64: each face divides its share among its pairs

    @classmethod
    def measure(
        cls,
        surface: Surface,
        undirected: Tensor,  # (adjacencies, 2) adjacent faces
        dual: DualKind,
    ) -> AreaShares:
        """Compute shares; faces of a mesh without area have equal shares."""
        areas = []
        for faces in surface.faces.split(_FACES):  # temporary tensors stay in the cache
            corner = surface.vertices[faces]
            edge = corner[:, 1:] - corner[:, :1]
            normal = torch.linalg.cross(edge[:, 0], edge[:, 1])
            areas.append(torch.linalg.vector_norm(normal, dim=1))
        area = torch.cat(areas)
        total = area.new_zeros(surface.num_meshes).index_add(0, surface.face_batch, area)
        count = torch.bincount(surface.face_batch, minlength=surface.num_meshes).to(area)
        known = total > 0
        # Equal weights where there is no area: every face of total `count`.
        area = torch.where(known[surface.face_batch], area, 1.0)
        share = area / torch.where(known, total, count)[surface.face_batch]
        neighbours = torch.bincount(undirected.reshape(-1), minlength=len(share)).clamp_min(1)
        given = (share / neighbours)[undirected].sum(dim=1)
        nodes = dual.nodes_per_edge
        return cls(share, (given / nodes).repeat_interleave(nodes))

    @classmethod
    def batch(cls, parts: Sequence[AreaShares | None]) -> AreaShares | None:
        """Concatenate the shares of several graphs; return None if any graph has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return cls(torch.cat([p.primal for p in known]), torch.cat([p.dual for p in known]))

    def to(self, device: torch.device | str) -> AreaShares:
        """Move to a device."""
        return AreaShares(self.primal.to(device), self.dual.to(device))
