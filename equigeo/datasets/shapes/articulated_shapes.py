"""Built-in data set of articulated shapes in random poses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.shapes.animal_templates import ANIMAL_TEMPLATES
from equigeo.datasets.shapes.cached_meshes import (
    TRAIN_SHARE,
    Arrays,
    cached_arrays,
    check_arguments,
    join_meshes,
    split_meshes,
)
from equigeo.datasets.shapes.generate_shape import generate_instance
from equigeo.datasets.shapes.object_templates import OBJECT_TEMPLATES
from equigeo.mesh import TriangleMesh

# Sixteen classes in the spirit of SHREC'11. Rest positions hold limbs apart and joints in the
# middle of their range: the surface is made there once, and posing only turns the joints.
SHAPE_TEMPLATES = tuple(sorted(ANIMAL_TEMPLATES + OBJECT_TEMPLATES, key=lambda t: t.name))

_VERSION = 1  # raise with every change that alters a generated mesh


def articulated_shapes(
    seed: int = 0, *, per_class: int = 20, faces: int = 500, cache: Path | None = None
) -> MeshDataset:
    """Generate sixteen classes of articulated shapes, or read them from the cache.

    A class is a skeleton wrapped in one surface. Each instance bends the joints, varies
    proportions, adds noise, simplifies the surface with its own connectivity, and is rotated,
    scaled and translated at random. Every mesh is closed, connected, manifold, oriented outward and
    of its class's genus: 0, or 2 for glasses and scissors.

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

    References ---------- Lian et al., "SHREC'11 track: shape retrieval on non-rigid 3D watertight
    meshes", 2011 (a similar collection).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shapes = articulated_shapes(per_class=2, cache=Path(folder))
    >>> len(shapes), shapes.num_classes, shapes.meshes[0].num_faces
    (32, 16, 500)
    """
    check_arguments(seed, faces, per_class=per_class)
    meshes = cached_arrays(
        f"articulated_shapes-v{_VERSION}-seed{seed}-{per_class}x{faces}.npz",
        cache,
        partial(_generate, seed, per_class, faces),
        partial(split_meshes, number=len(SHAPE_TEMPLATES) * per_class, faces=faces),
    )
    return _label(meshes, per_class)


def _generate(seed: int, per_class: int, faces: int) -> Arrays:
    """Generate all instances and join them in the stored layout."""
    shapes = [
        generate_instance(template, faces, seed, instance)
        for template in SHAPE_TEMPLATES
        for instance in range(per_class)
    ]
    return join_meshes([(shape.vertices, shape.faces) for shape in shapes])


def _label(meshes: list[TriangleMesh], per_class: int) -> MeshDataset:
    classes = tuple(template.name for template in SHAPE_TEMPLATES)
    instances = torch.arange(per_class).repeat(len(classes))
    return MeshDataset(
        meshes=tuple(meshes),
        labels=torch.arange(len(classes)).repeat_interleave(per_class),
        classes=classes,
        names=tuple(f"{name}/{k}" for name in classes for k in range(per_class)),
        in_train=instances < int(TRAIN_SHARE * per_class),
    )
