"""Templates of shapes, and their bones as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float, float]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Limb:
    """Chain of bones along a polyline; x points forward, y to the left, z up."""

    name: str  # other limbs refer to it
    points: tuple[Point, ...]  # one bone between every two neighbors
    radii: tuple[float, ...]  # thickness at every point
    bends: tuple[float, ...]  # largest turn at the start of each bone, in degrees
    parent: str = ""  # limb that this one follows; empty for the root
    bone: int = -1  # bone of the parent
    axis: Point = (0.0, 1.0, 0.0)  # axis of bends; its component across the bone counts
    sway: float = 1.0  # turn about the other axis, relative to the bend: 0 hinge, 1 ball joint
    mirror: bool = False  # add a copy mirrored at y = 0
    around: int = 1  # copies, rotated evenly about the z axis


@dataclass(frozen=True)
class ShapeTemplate:
    """Class of shapes: a skeleton with thickness."""

    name: str
    limbs: tuple[Limb, ...]  # parents before children
    genus: int = 0  # expected number of handles

    def __repr__(self) -> str:
        return f"ShapeTemplate({self.name!r}, {len(self.limbs)} limbs, genus {self.genus})"


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Bones in rest position, parents before children."""

    parents: NDArray[np.int64]  # (bones,), -1 for the root
    starts: Array  # (bones, 3); a bone turns about its start
    ends: Array  # (bones, 3)
    radii: Array  # (bones, 2) at start and end
    axes: Array  # (bones, 2, 3) unit rotation axes across the bone
    limits: Array  # (bones, 2) largest angles in radians

    def __repr__(self) -> str:
        return f"Skeleton({self.num_bones} bones)"

    @property
    def num_bones(self) -> int:
        """Number of bones."""
        return len(self.parents)

    def distances(
        self,
        points: Array,  # (points, 3)
        bones: slice = slice(None),
    ) -> tuple[Array, Array]:
        """Return distances to bones and thickness at the closest points, each (points, bones)."""
        starts, radii = self.starts[bones], self.radii[bones]
        spans = self.ends[bones] - starts
        lengths = np.einsum("bi,bi->b", spans, spans)
        along = points @ spans.T - np.einsum("bi,bi->b", starts, spans)
        along = np.clip(along / lengths, 0.0, 1.0)
        # |p - s - t d|^2 by components: no (points, bones, 3) array
        squared = np.zeros_like(along)
        for axis in range(3):
            offset = points[:, axis, None] - starts[:, axis] - along * spans[:, axis]
            squared += offset * offset
        return np.sqrt(squared), radii[:, 0] + along * (radii[:, 1] - radii[:, 0])

    @staticmethod
    def from_template(template: ShapeTemplate) -> Skeleton:
        """Build the bones of all copies of all limbs, in template order."""
        parents: list[int] = []
        columns: list[tuple[Array, Array, Array, Array, Array]] = []
        bones_of: dict[str, list[int]] = {"": [-1]}
        for limb in template.limbs:
            for copy in _copies(limb):
                first = len(parents)
                number = len(limb.points) - 1
                bones_of.setdefault(limb.name, list(range(first, first + number)))
                parents += [bones_of[limb.parent][limb.bone], *range(first, first + number - 1)]
                columns.append(_bones(limb, copy))
        starts, ends, radii, axes, limits = (np.concatenate(c) for c in zip(*columns, strict=True))
        return Skeleton(np.array(parents), starts, ends, radii, axes, limits)


def _copies(limb: Limb) -> list[Array]:
    """Return the linear maps that place the copies of a limb."""
    maps = []
    for angle in 2 * np.pi * np.arange(limb.around) / limb.around:
        cos, sin = np.cos(angle), np.sin(angle)
        maps.append(np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]))
    if limb.mirror:
        maps += [np.diag([1.0, -1.0, 1.0]) @ turn for turn in maps]
    return maps


def _bones(limb: Limb, copy: Array) -> tuple[Array, Array, Array, Array, Array]:
    number = len(limb.points)
    if len(limb.radii) != number or len(limb.bends) != number - 1:
        raise ValueError(
            f"limb {limb.name!r}: {number} points need {number} radii and {number - 1} bends, "
            f"got {len(limb.radii)} and {len(limb.bends)}"
        )
    points = np.array(limb.points, dtype=float) @ copy.T
    starts, ends = points[:-1], points[1:]
    radii = np.stack([limb.radii[:-1], limb.radii[1:]], axis=1).astype(float)
    along = (ends - starts) / np.linalg.norm(ends - starts, axis=1, keepdims=True)
    bend = copy @ np.array(limb.axis, dtype=float)
    # The part of the axis across each bone, by Gram and Schmidt.
    bend = bend - (along @ bend)[:, None] * along
    across = np.linalg.norm(bend, axis=1, keepdims=True)
    if not (across > 1e-6).all():  # of unit vectors: the direction across would be rounding
        raise ValueError(f"limb {limb.name!r}: axis lies along a bone")
    bend /= across
    axes = np.stack([bend, np.cross(along, bend)], axis=1)
    limits = np.radians(limb.bends)[:, None] * np.array([1.0, limb.sway])
    return starts, ends, radii, axes, limits
