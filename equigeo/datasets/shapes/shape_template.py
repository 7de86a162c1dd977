"""Building blocks of shape templates."""

from __future__ import annotations

from dataclasses import dataclass

Point = tuple[float, float, float]


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
