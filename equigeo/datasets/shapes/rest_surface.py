"""Surface of a template in rest position with skinning weights."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.shapes.marching_tetrahedra import marching_tetrahedra
from equigeo.datasets.shapes.shape_template import ShapeTemplate
from equigeo.datasets.shapes.simplify_surface import simplify_surface
from equigeo.datasets.shapes.skeleton import Skeleton

Array = NDArray[np.float64]

_CELLS = 12_000  # of the first grid, unless the thinnest radius wants finer ones
_FINENESS = 1.0  # largest cell, of the thinnest radius
_OVERSAMPLING = 2  # faces of the polygonized surface for each that simplification leaves
_BLEND = 0.12  # of the thinnest radius: the bulge where two bones meet
_MARGIN = 2.5  # cells between the surface and the boundary of the grid


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
