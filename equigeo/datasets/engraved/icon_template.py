"""Building blocks of icons: regions of the plane with sizes drawn per icon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Point = tuple[float, float]

_RADII: Final = 0.15  # largest relative change of a radius, either way
_THICKNESS: Final = 0.2  # of a thickness
_STEEPNESS: Final = 4.0  # of the flanks of square lobes: about a fifth of their period each


@dataclass(frozen=True)
class Stroke:
    """Region within a distance of a polyline."""

    points: tuple[Point, ...]
    radius: float  # half the thickness

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for a random thickness."""
        radius = _vary(self.radius, _THICKNESS, generator)
        inside = np.zeros(points.shape[:-1], bool)
        corners = np.array(self.points)
        for start, span in zip(corners[:-1], np.diff(corners, axis=0), strict=True):
            offset = points - start
            along = np.clip(offset @ span / (span @ span), 0.0, 1.0)
            inside |= np.sum((offset - along[..., None] * span) ** 2, axis=-1) <= radius**2
        return inside


@dataclass(frozen=True)
class Ellipse:
    """Axis-aligned superellipse."""

    center: Point
    radii: Point  # half axes
    exponent: float = 2.0  # larger values are closer to a rectangle

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for random half axes of the same ratio."""
        radii = np.array(self.radii) * _vary(1.0, _RADII, generator)
        scaled = np.abs(points - np.array(self.center)) / radii
        inside: Mask = np.sum(scaled**self.exponent, axis=-1) <= 1.0
        return inside


@dataclass(frozen=True)
class Polygon:
    """Simple closed polygon."""

    corners: tuple[Point, ...]  # at least three, in either direction

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for a random size around the mean corner."""
        corners = np.array(self.corners)
        middle = corners.mean(axis=0)
        corners = middle + _vary(1.0, _RADII, generator) * (corners - middle)
        inside = np.zeros(points.shape[:-1], bool)
        x, y = np.moveaxis(points, -1, 0)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if y0 != y1:  # a ray to the right crosses this side
                inside ^= ((y0 <= y) != (y1 <= y)) & (x < x0 + (x1 - x0) * (y - y0) / (y1 - y0))
        return inside


@dataclass(frozen=True)
class Lobes:
    """Region inside a closed curve around the origin with a periodic radius."""

    count: int  # number of lobes, equal for all icons of a class
    inner: float  # smallest radius
    outer: float  # largest radius
    profile: Literal["round", "pointed", "square"] = "round"  # cosine, triangle, square wave

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for random radii."""
        inner = _vary(self.inner, _RADII, generator)
        outer = _vary(self.outer, _RADII, generator)
        x, y = np.moveaxis(points, -1, 0)
        wave = np.cos(self.count * np.arctan2(x, y))
        if self.profile == "pointed":
            wave = 1.0 - 2.0 * np.arccos(wave) / np.pi
        elif self.profile == "square":
            wave = np.tanh(_STEEPNESS * wave) / np.tanh(_STEEPNESS)
        inside: Mask = np.hypot(x, y) <= inner + (outer - inner) * (1.0 + wave) / 2.0
        return inside


Part = Stroke | Ellipse | Polygon | Lobes


@dataclass(frozen=True)
class IconTemplate:
    """Class of icons: the union of parts minus the cuts, within about one unit of the origin."""

    name: str
    parts: tuple[Part, ...]
    cuts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        return f"IconTemplate({self.name!r}, {len(self.parts)} parts, {len(self.cuts)} cuts)"


def _vary(size: float, share: float, generator: np.random.Generator) -> float:
    return size * generator.uniform(1.0 - share, 1.0 + share)
