"""Surfaces of templates at rest, posed, and checked."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from equigeo.datasets.shapes.remeshing import marching_tetrahedra, simplify_surface
from equigeo.datasets.shapes.skeleton import ShapeTemplate, Skeleton

Array = NDArray[np.float64]
_CELLS = 12_000  # of the first grid, unless the thinnest radius wants finer ones
_FINENESS = 1.0  # largest cell, of the thinnest radius
_OVERSAMPLING = 2  # faces of the polygonized surface for each that simplification leaves
_BLEND = 0.12  # of the thinnest radius: the bulge where two bones meet
_MARGIN = 2.5  # cells between the surface and the boundary of the grid
_LENGTH = 0.05  # largest change of a bone's length
_THICKNESS = 0.08  # largest change of the thickness of all bones
_ATTEMPTS = 24  # each with smaller angles
_SAMPLES = 5  # points along a bone at which gaps are measured


@dataclass(frozen=True, eq=False)
class RestSurface:
    """Closed surface around a skeleton, with skinning weights."""

    skeleton: Skeleton
    vertices: Array  # (vertices, 3) rest positions
    faces: NDArray[np.int64]  # (faces, 3) closed, oriented outwards
    weights: Array  # (vertices, bones), rows sum to one

    def __repr__(self) -> str:
        return f"RestSurface({len(self.vertices)} vertices, {len(self.faces)} faces)"


@lru_cache(maxsize=64)
def rest_surface(
    template: ShapeTemplate,
    count: int,  # even
) -> RestSurface:
    """Build and cache one smooth closed surface of ``count`` faces around a template's bones."""
    skeleton = Skeleton.from_template(template)
    cell = 1.0
    vertices, faces = _wrap(skeleton, cell)
    while len(faces) < _OVERSAMPLING * count:
        cell *= 0.8  # a cell is a share of the usual one; faces go with its inverse square
        vertices, faces = _wrap(skeleton, cell)
    generator = np.random.default_rng(zlib.crc32(template.name.encode()))
    vertices, faces = simplify_surface(vertices, faces, count, generator)
    distances, radii = skeleton.distances(vertices)
    # The smallest exponent is taken off, so that the nearest bone has weight one and none is 0 / 0.
    exponents = (distances / radii) ** 2
    # Softmax of minus the squared distance in units of thickness: bones blend within about one
    # thickness of a joint.
    weights = np.exp(exponents.min(axis=1, keepdims=True) - exponents)
    weights /= weights.sum(axis=1, keepdims=True)
    return RestSurface(skeleton, vertices, faces, weights)


def _wrap(skeleton: Skeleton, scale: float) -> tuple[Array, NDArray[np.int64]]:
    """Polygonize the smooth union of the bones on a grid of the given relative cell size."""
    reach = skeleton.radii.max()
    ends = np.concatenate([skeleton.starts, skeleton.ends])
    low, high = ends.min(axis=0) - reach, ends.max(axis=0) + reach
    usual = (np.prod(high - low) / _CELLS) ** (1 / 3)
    cell = scale * min(usual, _FINENESS * skeleton.radii.min())
    # off the symmetry planes, along which a grid point would cut the surface exactly
    low = low - (_MARGIN + 0.137) * cell
    shape = np.ceil((high - low) / cell + _MARGIN).astype(int)
    vertices, faces = marching_tetrahedra(_field(skeleton, low, cell, shape))
    return low + cell * vertices, faces


def _field(skeleton: Skeleton, low: Array, cell: float, shape: NDArray[np.int64]) -> Array:
    """Evaluate the smooth minimum of bone distances; any positive number far from all bones."""
    blend = _BLEND * skeleton.radii.min()
    total = np.full(shape, np.finfo(float).tiny)
    for bone in range(skeleton.num_bones):
        ends = np.stack([skeleton.starts[bone], skeleton.ends[bone]])
        reach = skeleton.radii[bone].max() + 2 * cell
        first = np.floor((ends.min(axis=0) - reach - low) / cell).astype(int)
        last = np.ceil((ends.max(axis=0) + reach - low) / cell).astype(int)
        spans = zip(np.maximum(first, 0), np.minimum(last, shape), strict=True)
        box = tuple(slice(int(a), int(b)) for a, b in spans)
        points = np.moveaxis(np.mgrid[box], 0, -1).reshape(-1, 3)
        part = total[box]
        distances, radii = skeleton.distances(low + cell * points, slice(bone, bone + 1))
        part += np.exp((radii - distances) / blend).reshape(part.shape)
    return -blend * np.log(total)


def pose_surface(rest: RestSurface, generator: np.random.Generator) -> Array:
    """Return the vertices of a rest surface in a random pose without new contacts of limbs."""
    skeleton = rest.skeleton
    apart = _clearance(skeleton, skeleton.starts, skeleton.ends) > 0
    linear, offset = _draw_maps(skeleton, 0.0, generator)
    # Angles shrink with every attempt down to the rest pose.
    for attempt in range(_ATTEMPTS):
        linear, offset = _draw_maps(skeleton, 1.0 - attempt / _ATTEMPTS, generator)
        starts = np.einsum("bij,bj->bi", linear, skeleton.starts) + offset
        ends = np.einsum("bij,bj->bi", linear, skeleton.ends) + offset
        if (_clearance(skeleton, starts, ends)[apart] > 0).all():
            break
    maps = np.concatenate([linear.reshape(-1, 9), offset], axis=1)
    blended = rest.weights @ maps
    turned = np.einsum("vij,vj->vi", blended[:, :9].reshape(-1, 3, 3), rest.vertices)
    return turned + blended[:, 9:]


def _draw_maps(
    skeleton: Skeleton, amplitude: float, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Draw an affine map per bone, composed with its parent's, (bones, 3, 3) and (bones, 3)."""
    number = skeleton.num_bones
    angles = amplitude * generator.uniform(-1.0, 1.0, (number, 2)) * skeleton.limits
    turns = np.einsum("ba,bai->bi", angles, skeleton.axes)
    turns = scipy.spatial.transform.Rotation.from_rotvec(turns).as_matrix()
    lengths = 1.0 + generator.uniform(-_LENGTH, _LENGTH, number)
    widths = np.full(number, 1.0 + generator.uniform(-_THICKNESS, _THICKNESS))
    along = skeleton.ends - skeleton.starts
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    # Thickness across the bone and length along it: w (I - t t^T) + l t t^T.
    stretch = widths[:, None, None] * np.eye(3)
    stretch += (lengths - widths)[:, None, None] * along[:, :, None] * along[:, None, :]
    rotation = np.empty((number, 3, 3))
    linear = np.empty((number, 3, 3))
    offset = np.empty((number, 3))
    for bone, parent in enumerate(skeleton.parents):
        start = skeleton.starts[bone]
        if parent < 0:
            rotation[bone], start_now = turns[bone], start
        else:
            rotation[bone] = rotation[parent] @ turns[bone]
            start_now = linear[parent] @ start + offset[parent]
        linear[bone] = rotation[bone] @ stretch[bone]
        offset[bone] = start_now - linear[bone] @ start
    return linear, offset


def _clearance(skeleton: Skeleton, starts: Array, ends: Array) -> Array:
    """Estimate the gaps between the surfaces of all pairs of bones, (bones, bones), by samples."""
    steps = np.linspace(0.0, 1.0, _SAMPLES)[:, None]
    points = (starts[:, None] + steps * (ends - starts)[:, None]).reshape(-1, 3)
    radii = (skeleton.radii[:, :1] + steps.T * np.diff(skeleton.radii)).reshape(-1)
    # |p - q|^2 by a product of matrices instead of an array of differences.
    square = np.einsum("pi,pi->p", points, points)
    squared = square[:, None] + square - 2.0 * points @ points.T
    gaps = np.sqrt(np.maximum(squared, 0.0)) - radii[:, None] - radii
    number = skeleton.num_bones
    return gaps.reshape(number, _SAMPLES, number, _SAMPLES).min(axis=(1, 3))


def surface_defect(
    vertices: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3)
    genus: int,  # expected number of handles
) -> str | None:
    """Return the first defect of a surface meant to be closed, connected and outward, or None."""
    if not np.isfinite(vertices).all():
        return "a position is not finite"
    number = len(vertices)
    start = faces.reshape(-1)
    end = np.roll(faces, -1, axis=1).reshape(-1)
    keys = np.sort(start * number + end)
    if (start == end).any() or (np.diff(keys) == 0).any():
        return "a face is degenerate or an edge has two faces on one side"
    # Closed and oriented: every directed edge occurs once, and so does its reverse.
    if not np.array_equal(keys, np.sort(end * number + start)):
        return "an edge does not have one face on each side"
    graph = scipy.sparse.coo_matrix((np.ones(len(start)), (start, end)), (number, number))
    if scipy.sparse.csgraph.connected_components(graph, directed=False)[0] != 1:
        return "it has several components or unused vertices"
    characteristic = number - len(keys) // 2 + len(faces)
    if characteristic != 2 - 2 * genus:
        return f"its Euler characteristic is {characteristic}, not {2 - 2 * genus}"
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    if not (np.linalg.norm(normals, axis=1) > 0).all():
        return "a face has no area"
    # The sum over faces of corner . normal is six times the enclosed volume, by Gauss's theorem.
    if np.sum(normals * corners[:, 0]) <= 0:
        return "its enclosed volume is not positive"
    return None
