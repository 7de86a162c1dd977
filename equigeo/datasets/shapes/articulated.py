"""Built-in data set of articulated shapes in random poses."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from equigeo._core.checks import checked_integer
from equigeo.datasets.cache import Arrays, cached_arrays
from equigeo.datasets.meshes import MeshDataset
from equigeo.datasets.shapes.remeshing import nearest_triangles, simplify_surface
from equigeo.datasets.shapes.skeleton import ShapeTemplate
from equigeo.datasets.shapes.surface import RestSurface, pose_surface, rest_surface, surface_defect
from equigeo.datasets.shapes.templates import ANIMAL_TEMPLATES, OBJECT_TEMPLATES
from equigeo.mesh import TriangleMesh

Array = NDArray[np.float64]
_DETAIL = 3  # faces of the rest surface for each face of an instance
_NOISE = 0.002  # of the bounding box's diagonal
_ATTEMPTS = 8  # each with random numbers of its own
TRAIN_SHARE: Final = 0.8  # of the instances of a class, the first ones
_FACES = (200, 2000)
# Sixteen classes in the spirit of SHREC'11. Rest positions hold limbs apart and joints in the
# middle of their range: the surface is made there once, and posing only turns the joints.
SHAPE_TEMPLATES = tuple(sorted(ANIMAL_TEMPLATES + OBJECT_TEMPLATES, key=lambda t: t.name))
_VERSION = 1  # raise with every change that alters a generated mesh


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

    def at_rest(
        self,
        points: Array,  # (points, 3) of the unplaced surface
    ) -> Array:
        """Return where points are in the rest position, (points, 3)."""
        triangles = self.rest.faces
        nearest, weights = nearest_triangles(points, self.posed[triangles])
        found: Array = np.einsum("pc,pci->pi", weights, self.rest.vertices[triangles[nearest]])
        return found


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
        turn = scipy.spatial.transform.Rotation.from_quat(generator.standard_normal(4)).as_matrix()
        scale = 2.0 ** generator.uniform(-1.0, 1.0)
        vertices = scale * np.einsum("vi,ji->vj", unplaced, turn) + generator.normal(size=3)
        defect = surface_defect(vertices, triangles, template.genus)
        if defect is None:
            return ShapeInstance(vertices, triangles, unplaced, rest, posed)
    raise RuntimeError(f"cannot generate {template.name!r} number {instance}: {defect}")


def check_arguments(
    seed: int,
    least: int = 2,
    *,
    faces: Mapping[str, int],  # even numbers from 200 to 2000 by name
    **instances: int,  # counts, not below the least
) -> None:
    """Raise unless the arguments of a generator are integers in range."""
    checked_integer("seed", seed, 0)
    for name, number in instances.items():
        checked_integer(name, number, least)
    low, high = _FACES
    for name, number in faces.items():
        if checked_integer(name, number) % 2 or not low <= number <= high:
            raise ValueError(f"{name} must be even, from {low} to {high}, got {number}")


def join_meshes(
    meshes: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]],  # of as many faces each
) -> Arrays:
    """Join vertices and faces of meshes in the stored layout."""
    return {
        "vertices": np.concatenate([vertices for vertices, _ in meshes]),
        "num_vertices": np.array([len(vertices) for vertices, _ in meshes]),
        "faces": np.stack([faces for _, faces in meshes]).astype(np.int32),
    }


def split_meshes(
    arrays: Arrays,  # of ``join_meshes``
    number: int,
    faces: int,  # per mesh
) -> list[TriangleMesh]:
    """Split joined arrays into meshes."""
    if arrays["faces"].shape != (number, faces, 3):
        raise ValueError(f"faces of shape {arrays['faces'].shape}")
    vertices = torch.from_numpy(arrays["vertices"])
    parts = vertices.split(arrays["num_vertices"].tolist())
    return [
        TriangleMesh(part.clone(), torch.from_numpy(triangles).long())
        for part, triangles in zip(parts, arrays["faces"], strict=True)
    ]


def articulated_shapes(
    seed: int = 0, *, per_class: int = 20, faces: int = 500, cache: Path | None = None
) -> MeshDataset:
    """Generate sixteen classes of articulated shapes, or read them from the cache.

    A class is a skeleton wrapped in one surface. Each instance bends the joints, varies
    proportions, adds noise, simplifies the surface with its own connectivity, and is rotated,
    scaled and translated at random. Every mesh is closed, connected, manifold, oriented outward and
    of genus 0, or 2 for glasses and scissors.

    Parameters
    ----------
    seed : int
        Not negative. An instance does not depend on ``per_class``.
    per_class : int
        Instances per class, at least 2; the first 80 % are marked as training meshes.
    faces : int
        Exact number of faces per mesh, even, from 200 to 2000.
    cache : Path, optional
        Cache folder, by default ``$EQUIGEO_CACHE`` or the user's. Failure to write it is logged;
        a damaged file is replaced.

    Returns
    -------
    MeshDataset
        Meshes by class, classes in alphabetical order.

    References
    ----------
    Lian et al., "SHREC'11 track: shape retrieval on non-rigid 3D watertight meshes", 2011 (a
    similar collection).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shapes = articulated_shapes(per_class=2, cache=Path(folder))
    >>> len(shapes), shapes.num_classes, shapes.meshes[0].num_faces
    (32, 16, 500)
    """
    check_arguments(seed, faces={"faces": faces}, per_class=per_class)
    meshes = cached_arrays(
        f"articulated_shapes-v{_VERSION}-seed{seed}-{per_class}x{faces}.npz",
        cache,
        partial(_generate, seed, per_class, faces),
        partial(split_meshes, number=len(SHAPE_TEMPLATES) * per_class, faces=faces),
    )
    classes = tuple(template.name for template in SHAPE_TEMPLATES)
    return MeshDataset(
        meshes=tuple(meshes),
        labels=torch.arange(len(classes)).repeat_interleave(per_class),
        classes=classes,
        names=tuple(f"{name}/{k}" for name in classes for k in range(per_class)),
        in_train=torch.arange(per_class).repeat(len(classes)) < int(TRAIN_SHARE * per_class),
    )


def _generate(seed: int, per_class: int, faces: int) -> Arrays:
    """Generate all instances and join them in the stored layout."""
    shapes = [
        generate_instance(template, faces, seed, instance)
        for template in SHAPE_TEMPLATES
        for instance in range(per_class)
    ]
    return join_meshes([(shape.vertices, shape.faces) for shape in shapes])
