"""Articulated animals with faces labelled by body part."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from equigeo.datasets.segmentation.segmented_mesh_dataset import SegmentedMeshDataset
from equigeo.datasets.shapes.cached_meshes import (
    TRAIN_SHARE,
    Arrays,
    cached_arrays,
    check_arguments,
    join_meshes,
    split_meshes,
)
from equigeo.datasets.shapes.generate_shape import generate_instance
from equigeo.datasets.shapes.part_labels import PART_TEMPLATES, PARTS, part_labels

_VERSION = 1  # raise with every change that alters a generated mesh or label


def articulated_parts(
    seed: int = 0, *, per_class: int = 20, faces: int = 500, cache: Path | None = None
) -> SegmentedMeshDataset:
    """Generate six kinds of animals with labelled faces, or read them from the cache.

    The meshes are bitwise those of `articulated_shapes` for birds, dinosaurs, dogs, gorillas,
    horses and men. A face is labelled by its bone, so labels are exact and independent of the pose.
    With another number of faces, the same seed gives the same animals in the same poses.

    Parameters
    ----------
    seed, per_class, faces, cache
        See `articulated_shapes`.

    Returns
    -------
    SegmentedMeshDataset
        Meshes by kind, in alphabetical order. The eight classes are head, neck, torso, tail, wing,
        upper limb, lower limb, hand or foot.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     animals = articulated_parts(per_class=2, faces=200, cache=Path(folder))
    >>> animals, animals.classes[animals.labels[0].bincount().argmax()]
    (SegmentedMeshDataset(12 meshes with labelled faces, 8 classes, 6 to train), 'wing')
    """
    check_arguments(seed, faces, per_class=per_class)
    return cached_arrays(
        f"articulated_parts-v{_VERSION}-seed{seed}-{per_class}x{faces}.npz",
        cache,
        partial(_generate, seed, per_class, faces),
        partial(_dataset, per_class, faces),
    )


def _generate(seed: int, per_class: int, faces: int) -> Arrays:
    """Generate all instances and join them in the stored layout."""
    kinds = [(template, k) for template in PART_TEMPLATES for k in range(per_class)]
    shapes = [generate_instance(template, faces, seed, instance) for template, instance in kinds]
    labels = [part_labels(shape, kind) for shape, (kind, _) in zip(shapes, kinds, strict=True)]
    arrays = join_meshes([(shape.vertices, shape.faces) for shape in shapes])
    return arrays | {"labels": np.stack(labels).astype(np.int8)}


def _dataset(per_class: int, faces: int, arrays: Arrays) -> SegmentedMeshDataset:
    """Split the joined meshes into a data set."""
    instances = torch.arange(per_class).repeat(len(PART_TEMPLATES))
    return SegmentedMeshDataset(
        meshes=tuple(split_meshes(arrays, len(instances), faces)),
        labels=tuple(torch.from_numpy(arrays["labels"]).long()),
        classes=PARTS,
        names=tuple(f"{kind.name}/{k}" for kind in PART_TEMPLATES for k in range(per_class)),
        in_train=instances < int(TRAIN_SHARE * per_class),
    )
