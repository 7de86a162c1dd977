"""Random instance of a shape template."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.datasets.shapes.pose_surface import pose_surface
from equigeo.datasets.shapes.rest_surface import RestSurface, rest_surface
from equigeo.datasets.shapes.shape_template import ShapeTemplate
from equigeo.datasets.shapes.simplify_surface import simplify_surface
from equigeo.datasets.shapes.surface_defect import surface_defect

Array = NDArray[np.float64]

_DETAIL = 3  # faces of the rest surface for each face of an instance
_NOISE = 0.002  # of the bounding box's diagonal
_ATTEMPTS = 8  # each with random numbers of its own


@dataclass(frozen=True, eq=False)
class ShapeInstance:
    """Generated surface with its intermediate stages."""

    vertices: Array  # (vertices, 3) rotated, scaled and translated
    faces: NDArray[np.int64]  # (faces, 3)
    unplaced: Array  # (vertices, 3) before rotation, scaling and translation
    rest: RestSurface  # surface and skeleton of the template
    posed: Array  # (vertices of rest, 3) before simplification

    def __repr__(self) -> str:
        return f"ShapeInstance({len(self.vertices)} vertices, {len(self.faces)} faces)"


def generate_instance(
    template: ShapeTemplate,
    faces: int,  # even
    seed: int,
    instance: int,
) -> ShapeInstance:
    """Pose, perturb, simplify and randomly place a template, as a closed surface."""
    rest = rest_surface(template, _DETAIL * faces)
    name = zlib.crc32(template.name.encode())
    defect = None
    for attempt in range(_ATTEMPTS):
        # The stream depends only on seed, class name and instance, so that the pose is independent
        # of the number of faces, unless an attempt fails.
        generator = np.random.default_rng([seed, name, instance, attempt])
        posed = pose_surface(rest, generator)
        diagonal = np.linalg.norm(np.ptp(posed, axis=0))
        posed += _NOISE * diagonal * generator.uniform(-1.0, 1.0, posed.shape)
        unplaced, triangles = simplify_surface(posed, rest.faces, faces, generator)
        turn = Rotation.from_quat(generator.standard_normal(4)).as_matrix()
        scale = 2.0 ** generator.uniform(-1.0, 1.0)
        vertices = scale * np.einsum("vi,ji->vj", unplaced, turn) + generator.normal(size=3)
        defect = surface_defect(vertices, triangles, template.genus)
        if defect is None:
            return ShapeInstance(vertices, triangles, unplaced, rest, posed)
    raise RuntimeError(f"cannot generate {template.name!r} number {instance}: {defect}")
