"""Rasterised random icon of a template."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from equigeo.datasets.engraved.icon_template import IconTemplate

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SIZE: Final = 128  # pixels along a side of the picture
_REACH: Final = 1.4  # the picture shows the square of this half side
_STRETCH: Final = 0.15  # largest relative change of each side of an icon
_WAVES: Final = 6  # of random direction, which displace every point
_WAVE_NUMBERS: Final = (1.0, 5.0)  # radians a unit: up to about two waves along an icon
_DISPLACEMENT: Final = 0.05  # deviation in all
_CLOSING: Final = 2  # pixels
_DILATION: Final = (1, 3)  # pixels, so that strokes survive simplification
_LEAST_PIXELS: Final = 400  # of an icon: what is drawn smaller has fallen apart


def draw_icon(template: IconTemplate, seed: int, instance: int) -> Mask:
    """Draw an icon with random sizes, stretch and smooth deformation as a mask, (128, 128)."""
    # The stream depends only on seed, class name and instance.
    generator = icon_generator(template, seed, instance, 0)
    points = _deform(_pixels(), generator)
    mask = np.zeros(points.shape[:-1], bool)
    for part in template.parts:
        mask |= part.contains(points, generator)
    for cut in template.cuts:
        mask &= ~cut.contains(points, generator)
    mask = ndimage.binary_closing(mask, _disc(_CLOSING))
    low, high = _DILATION
    mask = ndimage.binary_dilation(mask, _disc(int(generator.integers(low, high + 1))))
    icon = _largest_component(mask)
    if icon.sum() < _LEAST_PIXELS:
        raise RuntimeError(f"icon {template.name!r} number {instance} has {icon.sum()} pixels")
    return icon


def icon_generator(
    template: IconTemplate, seed: int, instance: int, stream: int
) -> np.random.Generator:
    """Return the generator of an icon: stream 0 draws it, stream 1 + k places it."""
    name = zlib.crc32(template.name.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, name, instance, stream]))


def _pixels() -> Array:
    """Return the pixel positions, (128, 128, 2): x to the right, y up."""
    middles = _REACH * (2.0 * (np.arange(SIZE) + 0.5) / SIZE - 1.0)
    return np.stack(np.meshgrid(middles, middles[::-1]), axis=-1)


def _deform(points: Array, generator: np.random.Generator) -> Array:
    """Stretch the axes and displace every point by a sum of waves."""
    points = points / generator.uniform(1.0 - _STRETCH, 1.0 + _STRETCH, 2)
    angles, phases = generator.uniform(0.0, 2.0 * np.pi, (2, _WAVES))
    numbers = generator.uniform(*_WAVE_NUMBERS, _WAVES)
    waves = np.stack([np.cos(angles), np.sin(angles)]) * numbers
    # a sine has the variance 1/2
    amplitudes = generator.standard_normal((_WAVES, 2)) * _DISPLACEMENT * (2.0 / _WAVES) ** 0.5
    moved: Array = points + np.sin(points @ waves + phases) @ amplitudes
    return moved


def _disc(radius: int) -> Mask:
    steps = np.arange(-radius, radius + 1)
    disc: Mask = np.hypot(steps[:, None], steps) <= radius
    return disc


def _largest_component(mask: Mask) -> Mask:
    parts, number = ndimage.label(mask)
    if number < 2:
        return mask
    largest: Mask = parts == 1 + np.bincount(parts.reshape(-1))[1:].argmax()
    return largest
