"""Distinguishable colors."""

from __future__ import annotations

import colorsys

_GOLDEN = 0.6180339887498949  # steps of this size never bring two hues together
_VALUES = 3  # neighboring numbers differ in brightness too


def distinct_color(
    number: int,
    saturation: float = 0.45,  # from 0 (grey) to 1
) -> tuple[int, int, int]:
    """Return a distinct RGB color (0 to 255) per number."""
    value = 0.8 + 0.18 * (number % _VALUES) / (_VALUES - 1)
    channels = colorsys.hsv_to_rgb(number * _GOLDEN % 1, saturation, value)
    red, green, blue = (round(255 * channel) for channel in channels)
    return red, green, blue


def hexadecimal(color: tuple[int, int, int]) -> str:
    """Format a color as hexadecimal for HTML."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def blend(
    first: tuple[int, int, int], second: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    """Blend two colors; ``share`` from 0 to 1 is that of the second."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue
