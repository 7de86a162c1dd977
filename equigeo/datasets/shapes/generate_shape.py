"""One random instance of a shape template."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.datasets.shapes.pose_surface import pose_surface
from equigeo.datasets.shapes.rest_surface import rest_surface
from equigeo.datasets.shapes.shape_template import ShapeTemplate
from equigeo.datasets.shapes.simplify_surface import simplify_surface
from equigeo.datasets.shapes.surface_defect import surface_defect

_DETAIL = 3  # faces of the rest surface for each face of an instance
_NOISE = 0.002  # of the bounding box's diagonal
_ATTEMPTS = 8  # each with random numbers of its own


def generate_shape(
    template: ShapeTemplate, faces: int, seed: int, instance: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pose a template, roughen it, simplify it and place it at random.

    The random stream depends on the seed, the class name and the instance only, so an instance is
    the same whatever else is generated.

    Parameters
    ----------
    template : ShapeTemplate
        The class of shapes.
    faces : int
        Exact number of faces, even.
    seed : int
        Seed of the collection, not negative.
    instance : int
        Number within the class.

    Returns
    -------
    vertices : array, (faces / 2 + 2 - 2 genus, 3), float64
        Positions, of a random scale from 0.5 to 2.
    faces : array, (faces, 3), int64
        Closed, connected, oriented outwards, of the template's genus.

    Raises
    ------
    RuntimeError
        If no sound surface came out of several attempts.
    """
    rest = rest_surface(template, _DETAIL * faces)
    name = zlib.crc32(template.name.encode())
    defect = None
    for attempt in range(_ATTEMPTS):
        generator = np.random.default_rng([seed, name, instance, attempt])
        posed = pose_surface(rest, generator)
        diagonal = np.linalg.norm(np.ptp(posed, axis=0))
        posed += _NOISE * diagonal * generator.uniform(-1.0, 1.0, posed.shape)
        vertices, triangles = simplify_surface(posed, rest.faces, faces, generator)
        turn = Rotation.from_quat(generator.standard_normal(4)).as_matrix()
        scale = 2.0 ** generator.uniform(-1.0, 1.0)
        vertices = scale * np.einsum("vi,ji->vj", vertices, turn) + generator.normal(size=3)
        defect = surface_defect(vertices, triangles, template.genus)
        if defect is None:
            return vertices, triangles
    raise RuntimeError(f"cannot generate {template.name!r} number {instance}: {defect}")
