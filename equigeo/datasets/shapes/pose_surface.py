"""Random poses of a rest surface."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.datasets.shapes.rest_surface import RestSurface
from equigeo.datasets.shapes.skeleton import Skeleton

Array = NDArray[np.float64]

_LENGTH = 0.05  # largest change of a bone's length
_THICKNESS = 0.08  # largest change of the thickness of all bones
_ATTEMPTS = 24  # each with smaller angles
_SAMPLES = 5  # points along a bone at which gaps are measured


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
    turns = Rotation.from_rotvec(np.einsum("ba,bai->bi", angles, skeleton.axes)).as_matrix()
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
