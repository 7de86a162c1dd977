"""Body part labels of generated faces."""

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
    parts = bone_parts(template)
    rest = shape.rest
    corners = shape.posed[rest.faces]
    centres = shape.unplaced[shape.faces].mean(axis=1)
    nearest, weights = nearest_triangles(centres, corners)
    # Back to the rest position, where limbs are apart.
    points = np.einsum("fc,fci->fi", weights, rest.vertices[rest.faces[nearest]])
    labels: NDArray[np.int64] = parts[nearest_bones(rest.skeleton, points)]
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
