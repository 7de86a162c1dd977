"""One random instance of a shape template."""

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
    """One generated surface, and what it was made of.

    Parameters
    ----------
    vertices : array, (vertices, 3), float64
        Positions, turned, scaled and moved.
    faces : array, (faces, 3), int64
        Rows of vertex indices.
    unplaced : array, (vertices, 3), float64
        Positions before they were turned, scaled and moved.
    rest : RestSurface
        The template's surface and skeleton.
    posed : array, (vertices of rest, 3), float64
        Positions of the rest surface's vertices after posing, to which ``unplaced`` is simplified.
    """

    vertices: Array
    faces: NDArray[np.int64]
    unplaced: Array
    rest: RestSurface
    posed: Array

    def __repr__(self) -> str:
        return f"ShapeInstance({len(self.vertices)} vertices, {len(self.faces)} faces)"


def generate_instance(
    template: ShapeTemplate, faces: int, seed: int, instance: int
) -> ShapeInstance:
    """Pose a template, roughen it, simplify it and place it at random.

    The random stream depends on the seed, the class name and the instance only, so an instance is
    the same whatever else is generated. With another number of faces it has the same pose, unless
    one of them needs a second attempt.

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
    ShapeInstance
        Closed, connected, oriented outwards, of the template's genus and so with ``faces / 2 + 2 -
        2 genus`` vertices; of a random scale from 0.5 to 2.

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
        unplaced, triangles = simplify_surface(posed, rest.faces, faces, generator)
        turn = Rotation.from_quat(generator.standard_normal(4)).as_matrix()
        scale = 2.0 ** generator.uniform(-1.0, 1.0)
        vertices = scale * np.einsum("vi,ji->vj", unplaced, turn) + generator.normal(size=3)
        defect = surface_defect(vertices, triangles, template.genus)
        if defect is None:
            return ShapeInstance(vertices, triangles, unplaced, rest, posed)
    raise RuntimeError(f"cannot generate {template.name!r} number {instance}: {defect}")


def generate_shape(
    template: ShapeTemplate, faces: int, seed: int, instance: int
) -> tuple[Array, NDArray[np.int64]]:
    """Give the vertices and faces of ``generate_instance``, whose arguments it takes."""
    shape = generate_instance(template, faces, seed, instance)
    return shape.vertices, shape.faces
