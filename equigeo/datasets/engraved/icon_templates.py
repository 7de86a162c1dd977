"""Templates of icons: figures, tools and letters, none a mirror image of another."""

from __future__ import annotations

import numpy as np

from equigeo.datasets.engraved.icon_template import (
    Ellipse,
    IconTemplate,
    Lobes,
    Point,
    Polygon,
    Stroke,
)


def _heart() -> tuple[Point, ...]:
    """Sample a heart-shaped closed curve."""
    t = 2.0 * np.pi * np.arange(48) / 48
    x = 16.0 * np.sin(t) ** 3
    y = 13.0 * np.cos(t) - 5.0 * np.cos(2 * t) - 2.0 * np.cos(3 * t) - np.cos(4 * t)
    return tuple(zip((x / 17.0).tolist(), (y / 17.0).tolist(), strict=True))


def _spiral() -> tuple[Point, ...]:
    """Sample an Archimedean spiral of 1.75 turns."""
    t = np.sqrt(np.linspace(0.0, 1.0, 40))  # corners at about even distances
    turn, radius = 3.5 * np.pi * t, 0.95 * t
    x, y = radius * np.cos(turn), radius * np.sin(turn)
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


# In alphabetical order of the names.
ICON_TEMPLATES = (
    IconTemplate("arrowhead", (Stroke(((-0.9, 0.0), (0.8, 0.0)), 0.13),
        Stroke(((0.15, -0.7), (0.8, 0.0), (0.15, 0.7)), 0.13))),
    IconTemplate("bone", (Stroke(((-0.7, 0.0), (0.7, 0.0)), 0.15),
        *(Ellipse((0.66 * a, 0.28 * b), (0.28, 0.28)) for a in (-1, 1) for b in (-1, 1)))),
    IconTemplate("crescent", (
        Ellipse((0.0, 0.0), (0.9, 0.9)),), (Ellipse((0.5, 0.0), (0.75, 0.75)),)),
    IconTemplate("cross", (Stroke(((-0.8, 0.0), (0.8, 0.0)), 0.17),
        Stroke(((0.0, -0.8), (0.0, 0.8)), 0.17))),
    IconTemplate("fish", (Ellipse((-0.25, 0.0), (0.65, 0.42)),
        Polygon(((0.15, 0.0), (0.9, 0.65), (0.7, 0.0), (0.9, -0.65))))),
    IconTemplate("fork", (Stroke(((-0.95, 0.0), (-0.05, 0.0)), 0.16),
        Stroke(((-0.05, -0.6), (-0.05, 0.6)), 0.13),
        *(Stroke(((-0.05, y), (0.85, y)), 0.12) for y in (-0.6, 0.0, 0.6)))),
    IconTemplate("gear", (Lobes(7, 0.55, 1.0, "square"),), (Ellipse((0.0, 0.0), (0.26, 0.26)),)),
    IconTemplate("hammer", (Stroke(((0.0, -0.85), (0.0, 0.5)), 0.13),
        Ellipse((0.0, 0.45), (0.8, 0.38), 8.0))),
    IconTemplate("heart", (
        Polygon(_heart()),), (Polygon(((-0.2, 0.95), (0.2, 0.95), (0.0, -0.05))),)),
    IconTemplate("hut", (Ellipse((0.0, -0.35), (0.55, 0.5), 8.0),
        Polygon(((-0.85, 0.05), (0.85, 0.05), (0.0, 0.9)))),
        (Ellipse((0.0, -0.7), (0.17, 0.45), 8.0),)),
    IconTemplate("key", (Ellipse((-0.45, 0.0), (0.55, 0.55)),
        Stroke(((-0.1, 0.0), (0.95, 0.0)), 0.13),
        *(Stroke(((x, 0.0), (x, -0.45)), 0.11) for x in (0.48, 0.92))),
        (Ellipse((-0.5, 0.0), (0.26, 0.26)),)),
    IconTemplate("letter e", (Stroke(((0.55, -0.8), (-0.5, -0.8), (-0.5, 0.8), (0.55, 0.8)), 0.13),
        Stroke(((-0.5, 0.0), (0.45, 0.0)), 0.13))),
    IconTemplate("letter l", (Stroke(((-0.5, 0.85), (-0.5, -0.7), (0.6, -0.7)), 0.18),)),
    IconTemplate("letter t", (
        # with serifs, or it would be an L where a half of its bar is short
        Stroke(((-0.8, 0.4), (-0.8, 0.75), (0.8, 0.75), (0.8, 0.4)), 0.14),
        Stroke(((0.0, 0.75), (0.0, -0.85)), 0.14),
    )),
    IconTemplate("letter u", (
        Stroke(
            tuple(
                (0.55 * float(np.cos(a)), -0.25 + 0.6 * float(np.sin(a)))
                for a in np.linspace(np.pi, 2 * np.pi, 13)
            ),
            0.17,
        ),
        Stroke(((-0.55, -0.25), (-0.55, 0.8)), 0.17),
        Stroke(((0.55, -0.25), (0.55, 0.8)), 0.17),
    )),
    IconTemplate("lightning", (
        Polygon(((-0.3, 0.95), (0.5, 0.95), (0.1, 0.25), (0.7, 0.25), (-0.4, -0.95), (-0.1, -0.15),
         (-0.7, -0.15))),)),
    IconTemplate("ring", (
        Ellipse((0.0, 0.0), (0.85, 0.85)),), (Ellipse((0.0, 0.0), (0.48, 0.48)),)),
    IconTemplate("spiral", (Stroke(_spiral(), 0.11),)),
    IconTemplate("star", (Lobes(5, 0.36, 0.95, "pointed"),)),
    IconTemplate("superellipse", (Ellipse((0.0, 0.0), (0.8, 0.6), 4.0),)),
    IconTemplate("three lobes", (Lobes(3, 0.3, 0.9),)),
    IconTemplate("two lobes", (Lobes(2, 0.16, 0.95),)),
)  # fmt: skip
