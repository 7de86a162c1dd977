"""Which part of an animal a generated face belongs to."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.shapes.animal_templates import ANIMAL_TEMPLATES
from equigeo.datasets.shapes.closest_on_triangles import nearest_triangles
from equigeo.datasets.shapes.generate_shape import ShapeInstance
from equigeo.datasets.shapes.shape_template import ShapeTemplate
from equigeo.datasets.shapes.skeleton import Array, Skeleton

PARTS: Final = (
    "head",
    "neck",
    "torso",
    "tail",
    "wing",
    "upper limb",
    "lower limb",
    "hand or foot",
)

_BEYOND = 1e-6  # of how far a point lies beyond the end of a bone: above rounding, and no more

# Limb by limb, the part of every bone. Fore and hind legs, arms and legs share their parts, as the
# left and the right do: what a part is must be visible on the surface.
_LIMB = ("upper limb", "lower limb")
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
    """Give the part of every bone of a template.

    Parameters
    ----------
    template : ShapeTemplate
        One of ``PART_TEMPLATES``.

    Returns
    -------
    array, (bones,), int64
        Positions in ``PARTS``, in the order of the template's skeleton.

    Raises
    ------
    ValueError
        If the parts of the template, or of one of its bones, are not known.

    Examples
    --------
    >>> from collections import Counter
    >>> man = next(t for t in PART_TEMPLATES if t.name == "man")
    >>> sorted(Counter(PARTS[part] for part in bone_parts(man)).items())[:2]
    [('hand or foot', 4), ('head', 2)]
    """
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
    """Label the faces of a generated shape by the bone that lies nearest in rest position.

    The centre of each face goes to the closest point of the surface before simplification, and with
    it back to the rest position, where limbs are apart, and there to a bone. Labels thus depend
    neither on the pose nor on the number of faces.

    Parameters
    ----------
    shape : ShapeInstance
        What was generated.
    template : ShapeTemplate
        From this template.

    Returns
    -------
    array, (faces,), int64
        Positions in ``PARTS``.

    Raises
    ------
    ValueError
        If the parts of the template are not known.
    """
    parts = bone_parts(template)
    rest = shape.rest
    corners = shape.posed[rest.faces]
    centres = shape.unplaced[shape.faces].mean(axis=1)
    nearest, weights = nearest_triangles(centres, corners)
    points = np.einsum("fc,fci->fi", weights, rest.vertices[rest.faces[nearest]])
    labels: NDArray[np.int64] = parts[nearest_bones(rest.skeleton, points)]
    return labels


def nearest_bones(skeleton: Skeleton, points: Array) -> NDArray[np.int64]:
    """Find the bone that a point of the surface belongs to.

    Of chains of bones that share their joints, it is the one whose distance in units of its
    thickness is smallest: the surface of a thick limb is far from its bones. Of the bones of that
    chain, it is the nearest; on the outer side of a bent joint, where the joint is the closest
    point of both bones, the plane that halves the angle between them decides, as it does on the
    inner side.

    Parameters
    ----------
    skeleton : Skeleton
        The bones.
    points : array, (points, 3), float64
        Rest positions.

    Returns
    -------
    array, (points,), int64
        One bone for each point.
    """
    distances, radii = skeleton.distances(points)
    chains = _chains(skeleton)
    chain = chains[(distances / radii).argmin(axis=1)]
    spans = skeleton.ends - skeleton.starts
    lengths = np.linalg.norm(spans, axis=1)
    along = (points @ spans.T - np.einsum("bi,bi->b", skeleton.starts, spans)) / lengths
    beyond = np.maximum(np.maximum(along - lengths, -along), 0.0)
    reach = distances + _BEYOND * beyond
    nearest: NDArray[np.int64] = np.where(chains == chain[:, None], reach, np.inf).argmin(axis=1)
    return nearest


def _chains(skeleton: Skeleton) -> NDArray[np.int64]:
    """Number the chains of bones that begin where the one before them ends, (bones,)."""
    chains = np.arange(skeleton.num_bones)
    for bone, parent in enumerate(skeleton.parents):
        if parent >= 0 and np.array_equal(skeleton.starts[bone], skeleton.ends[parent]):
            chains[bone] = chains[parent]
    return chains
