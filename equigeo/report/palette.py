"""Colours that are told apart."""

from __future__ import annotations

import colorsys

_GOLDEN = 0.6180339887498949  # steps of this size never bring two hues together
_VALUES = 3  # neighbouring numbers differ in brightness too


def distinct_color(number: int, saturation: float = 0.45) -> tuple[int, int, int]:
    """Give a colour of its own to every number.

    Parameters
    ----------
    number : int
        Of a part or a cluster, not negative.
    saturation : float
        From 0, grey, to 1.

    Returns
    -------
    tuple of int
        Red, green and blue from 0 to 255.

    Examples
    --------
    >>> distinct_color(0), distinct_color(1)
    ((204, 112, 112), (125, 155, 227))
    """
    value = 0.8 + 0.18 * (number % _VALUES) / (_VALUES - 1)
    channels = colorsys.hsv_to_rgb(number * _GOLDEN % 1, saturation, value)
    red, green, blue = (round(255 * channel) for channel in channels)
    return red, green, blue


def hexadecimal(color: tuple[int, int, int]) -> str:
    """Write a colour as pages do.

    Examples
    --------
    >>> hexadecimal((204, 112, 0))
    '#cc7000'
    """
    return "#{:02x}{:02x}{:02x}".format(*color)


def blend(
    first: tuple[int, int, int], second: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    """Mix two colours, of which the second has a share from 0 to 1.

    Examples
    --------
    >>> blend((0, 0, 0), (200, 100, 0), 0.5)
    (100, 50, 0)
    """
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue
