"""Body part labels of generated faces."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from equigeo.datasets.cache import Arrays, cached_arrays
from equigeo.datasets.segmentation.dataset import SegmentedMeshDataset
from equigeo.datasets.shapes.articulated import (
    TRAIN_SHARE,
    ShapeInstance,
    check_arguments,
    generate_instance,
    join_meshes,
    split_meshes,
)
from equigeo.datasets.shapes.skeleton import Array, ShapeTemplate, Skeleton
from equigeo.datasets.shapes.templates import ANIMAL_TEMPLATES

PARTS: Final = ("head", "neck", "torso", "tail", "wing", "upper limb", "lower limb", "hand or foot")
_BEYOND = 1e-6  # of how far a point lies beyond the end of a bone: above rounding, and no more
# Limb by limb, the part of every bone. Fore and hind legs, arms and legs share their parts, as the
# left and the right do: what a part is must be visible on the surface.
_LIMB = ("upper limb", "lower limb")
_VERSION = 1  # raise with every change that alters a generated mesh or label


_PARTS_OF: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "bird": {
        "trunk": ("torso", "torso"),
        "neck": ("neck", "head", "head"),
        "tail": ("tail", "tail"),
        "tail fan": ("tail",),
        "wing": ("wing", "wing", "wing"),
        "leg": _LIMB,
    },
    "dinosaur": {
        "trunk": ("torso", "torso"),
        "neck": ("neck", "neck", "head"),
        "tail": ("tail", "tail", "tail", "tail"),
        "arm": _LIMB,
        "leg": (*_LIMB, "hand or foot"),
    },
    "dog": {
        "trunk": ("torso", "torso"),
        "neck": ("neck", "head"),
        "ear": ("head",),
        "tail": ("tail", "tail", "tail"),
        "foreleg": _LIMB,
        "hindleg": _LIMB,
    },
    "gorilla": {
        "torso": ("torso", "torso"),
        "head": ("head",),
        "arm": (*_LIMB, "hand or foot"),
        "leg": (*_LIMB, "hand or foot"),
    },
    "horse": {
        "trunk": ("torso", "torso"),
        "neck": ("neck", "neck", "head"),
        "tail": ("tail", "tail", "tail"),
        "foreleg": _LIMB,
        "hindleg": _LIMB,
    },
    "man": {
        "torso": ("torso", "torso"),
        "head": ("head", "head"),  # of the neck, the surface shows next to nothing
        "arm": (*_LIMB, "hand or foot"),
        "leg": (*_LIMB, "hand or foot"),
    },
}
# Animals with the parts of vertebrates; insects, octopuses and snakes have others.
PART_TEMPLATES: Final = tuple(t for t in ANIMAL_TEMPLATES if t.name in _PARTS_OF)


def bone_parts(template: ShapeTemplate) -> NDArray[np.int64]:
    """Return the part of every bone of a template as positions in ``PARTS``, (bones,)."""
    known = _PARTS_OF.get(template.name, {})
    parts: list[str] = []
    for limb in template.limbs:
        of_limb = known.get(limb.name, ())
        if len(of_limb) != len(limb.points) - 1:
            raise ValueError(
                f"{template.name!r}: limb {limb.name!r} has {len(limb.points) - 1} bones and "
                f"{len(of_limb)} parts; expected one of {sorted(_PARTS_OF)}"
            )
        copies = limb.around * (2 if limb.mirror else 1)
        parts += of_limb * copies
    return np.array([PARTS.index(part) for part in parts])


def part_labels(shape: ShapeInstance, template: ShapeTemplate) -> NDArray[np.int64]:
    """Label faces by the nearest bone in rest position, independent of pose and resolution."""
    centers = shape.unplaced[shape.faces].mean(axis=1)
    # In the rest position, limbs are apart.
    bones = nearest_bones(shape.rest.skeleton, shape.at_rest(centers))
    labels: NDArray[np.int64] = bone_parts(template)[bones]
    return labels


def nearest_bones(
    skeleton: Skeleton,
    points: Array,  # (points, 3) rest positions
) -> NDArray[np.int64]:
    """Return the bone of each surface point, (points,)."""
    distances, radii = skeleton.distances(points)
    chains = _chains(skeleton)
    # Between chains, distance is relative to thickness: the surface of a thick limb is far from its
    # bones.
    chain = chains[(distances / radii).argmin(axis=1)]
    spans = skeleton.ends - skeleton.starts
    lengths = np.linalg.norm(spans, axis=1)
    along = (points @ spans.T - np.einsum("bi,bi->b", skeleton.starts, spans)) / lengths
    # Within a chain the nearest bone counts; on the outer side of a bent joint, closest to both
    # bones, the bisecting plane decides.
    beyond = np.maximum(np.maximum(along - lengths, -along), 0.0)
    reach = distances + _BEYOND * beyond
    nearest: NDArray[np.int64] = np.where(chains == chain[:, None], reach, np.inf).argmin(axis=1)
    return nearest


def _chains(skeleton: Skeleton) -> NDArray[np.int64]:
    """Number the chains of consecutive bones, (bones,)."""
    chains = np.arange(skeleton.num_bones)
    for bone, parent in enumerate(skeleton.parents):
        if parent >= 0 and np.array_equal(skeleton.starts[bone], skeleton.ends[parent]):
            chains[bone] = chains[parent]
    return chains


def articulated_parts(
    seed: int = 0, *, per_class: int = 20, faces: int = 500, cache: Path | None = None
) -> SegmentedMeshDataset:
    """Generate six kinds of animals with labeled faces, or read them from the cache.

    The meshes are bitwise those of `articulated_shapes` for birds, dinosaurs, dogs, gorillas,
    horses and men. A face is labeled by its bone, so labels are exact and independent of the pose.
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
    (SegmentedMeshDataset(12 meshes with labeled faces, 8 classes, 6 to train), 'wing')
    """
    check_arguments(seed, faces={"faces": faces}, per_class=per_class)
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
