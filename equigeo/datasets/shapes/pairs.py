"""Pairs of generated animals in two poses, with the correspondence of their vertices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo.datasets.shapes.articulated import ShapeInstance, check_arguments, generate_instance
from equigeo.datasets.shapes.parts import PART_TEMPLATES
from equigeo.mesh import TriangleMesh

_MIRROR = np.array([1.0, -1.0, 1.0])  # animals at rest are symmetric in y


@dataclass(frozen=True, eq=False)
class MeshPair:
    """Two meshes of one kind of animal, and where the vertices of one are on the other."""

    name: str
    source: TriangleMesh
    target: TriangleMesh
    truth: Tensor  # (vertices of the source, 2) vertices of the target, the same and mirrored ones

    __repr__ = brief_repr


def articulated_pairs(
    seed: int = 0, *, per_class: int = 2, faces: int = 500, target_faces: int | None = None
) -> tuple[MeshPair, ...]:
    """Generate pairs of animals in two poses and tessellations with known correspondence.

    Source and target are the instances ``2 k`` and ``2 k + 1`` of a class of
    :func:`articulated_parts`. They differ in pose, proportions by a few percent, noise,
    connectivity, size and place. Corresponding vertices are those nearest to each other after both
    surfaces are moved back to the rest position; they are about a third of an edge apart.

    Parameters
    ----------
    seed : int
        Not negative; other than that of the training data.
    per_class : int
        Pairs per kind of animal, positive.
    faces, target_faces : int
        Exact numbers of faces, even, from 200 to 2000; by default both are equal.

    Returns
    -------
    tuple of MeshPair
        By kind: birds, dinosaurs, dogs, gorillas, horses and men. Each has a ``name``, the meshes
        ``source`` and ``target``, and ``truth``, (vertices of the source, 2), int64: vertices of
        the target at the same point of the animal, and at its mirror image, which features that
        reflections do not change cannot distinguish.

    Raises
    ------
    TypeError
        If a number is no integer.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> pair, *_ = articulated_pairs(per_class=1, faces=200, target_faces=300)
    >>> pair.name, pair.target.num_faces, pair.truth.shape
    ('bird/0', 300, torch.Size([102, 2]))
    """
    target_faces = faces if target_faces is None else target_faces
    numbers = {"faces": faces, "target_faces": target_faces}
    check_arguments(seed, 1, faces=numbers, per_class=per_class)
    found = []
    for template in PART_TEMPLATES:
        for k in range(per_class):
            source = generate_instance(template, faces, seed, 2 * k)
            target = generate_instance(template, target_faces, seed, 2 * k + 1)
            one, other = (
                TriangleMesh(torch.from_numpy(shape.vertices), torch.from_numpy(shape.faces))
                for shape in (source, target)
            )
            truth = corresponding(source, target)
            found.append(MeshPair(f"{template.name}/{k}", one, other, truth))
    return tuple(found)


def corresponding(source: ShapeInstance, target: ShapeInstance) -> Tensor:
    """Return vertices of the target at those of the source and at mirror images, (vertices, 2)."""
    # At rest, limbs are apart: in a pose, the nearest vertex may be on another one.
    points = source.at_rest(source.unplaced)
    tree = scipy.spatial.cKDTree(target.at_rest(target.unplaced))
    nearest = [tree.query(places)[1] for places in (points, points * _MIRROR)]
    return torch.from_numpy(np.stack(nearest, axis=1)).long()
