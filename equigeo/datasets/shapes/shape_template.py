"""What the table of shape templates is made of."""

from __future__ import annotations

from dataclasses import dataclass

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Limb:
    """A chain of bones along a polyline; x points forward, y to the left, z up.

    Parameters
    ----------
    name : str
        What other limbs attach to.
    points : tuple of Point
        One bone between every two neighbours, in any unit.
    radii : tuple of float
        Thickness at every point.
    bends : tuple of float
        For every bone, the largest turn at its start, in degrees, either way.
    parent : str
        The limb whose motion this one follows; empty for the first, which stays where it is.
    bone : int
        Which bone of the parent.
    axis : Point
        What bends turn about; its part across the bone counts.
    sway : float
        Largest turn about the remaining direction across the bone, as a part of the bend: 0 is a
        hinge, 1 a ball joint.
    mirror : bool
        Add a copy on the other side of the plane y = 0.
    around : int
        Number of copies, turned evenly about the z axis.
    """

    name: str
    points: tuple[Point, ...]
    radii: tuple[float, ...]
    bends: tuple[float, ...]
    parent: str = ""
    bone: int = -1
    axis: Point = (0.0, 1.0, 0.0)
    sway: float = 1.0
    mirror: bool = False
    around: int = 1


@dataclass(frozen=True)
class ShapeTemplate:
    """One class of shapes: a skeleton with thickness.

    Parameters
    ----------
    name : str
        Class name.
    limbs : tuple of Limb
        Parents before children.
    genus : int
        Number of handles of the surface, which generated meshes are checked against.
    """

    name: str
    limbs: tuple[Limb, ...]
    genus: int = 0

    def __repr__(self) -> str:
        return f"ShapeTemplate({self.name!r}, {len(self.limbs)} limbs, genus {self.genus})"
