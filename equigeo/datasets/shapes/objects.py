"""Templates of a hand and of jointed objects; scissors and glasses have two handles each."""

from __future__ import annotations

from math import cos, pi, sin

from equigeo.datasets.shapes.skeleton import Limb, Point, ShapeTemplate

_UP: Point = (0.0, 0.0, 1.0)


def _ring(center: tuple[float, float], radius: float, start: float) -> tuple[Point, ...]:
    """Return a closed polyline in the plane z = 0, from the angle ``start`` in degrees."""
    angles = [start * pi / 180 + 2 * pi * k / 10 for k in range(11)]
    return tuple(
        (center[0] + radius * cos(angle), center[1] + radius * sin(angle), 0.0) for angle in angles
    )


# fmt: off
_GLASSES = ShapeTemplate("glasses", (
    Limb("bridge", ((0, 0.09, 0), (0, 0, 0.03), (0, -0.09, 0)), (0.035, 0.035, 0.035), (0, 0)),
    Limb("rim", tuple((0.0, 0.28 + y, z) for y, z, _ in _ring((0, 0), 0.2, 180.0)), (0.035,) * 11,
        (0,) * 10, "bridge", bone=0, axis=(1.0, 0.0, 0.0), mirror=True),
    Limb("temple", ((0, 0.48, 0.02), (-0.3, 0.52, 0.03), (-0.6, 0.52, 0.03), (-0.78, 0.52, -0.12)),
        (0.035, 0.03, 0.03, 0.035), (45, 12, 15), "bridge", bone=0, axis=_UP, sway=0.2,
        mirror=True),
), genus=2)

_HAND = ShapeTemplate("hand", (
    Limb("wrist", ((-0.55, 0, 0), (-0.28, 0, 0)), (0.15, 0.14), (0,)),
    Limb("palm", ((-0.24, 0, 0), (0.1, 0.1, 0)), (0.13, 0.12), (15,), "wrist"),
    Limb("palm side", ((-0.24, 0, 0), (0.1, -0.12, 0)), (0.13, 0.11), (0,), "palm"),
    *(
        Limb(f"finger {k}",
            ((0.12, y, 0.0), (0.12 + 0.2 * size, y * 1.5, 0.02), (0.12 + 0.38 * size, y * 1.9, 0.0),
             (0.12 + 0.54 * size, y * 2.2, -0.04)), (0.062, 0.056, 0.052, 0.045), (22, 32, 28),
            "palm", sway=0.15)
        for k, (y, size) in enumerate(((0.2, 1.0), (0.07, 1.12), (-0.06, 1.05), (-0.2, 0.85)))
    ),
    Limb("thumb", ((-0.16, 0.12, 0.0), (0.0, 0.34, -0.04), (0.14, 0.48, -0.06)),
        (0.08, 0.062, 0.05), (25, 30), "palm", axis=_UP, sway=0.6),
))

_LAMP = ShapeTemplate("lamp", (
    Limb("base", ((0, 0, -0.02), (0, 0, 0.06)), (0.1, 0.07), (0,)),
    Limb("foot", ((0, 0, 0), (0.2, 0, 0)), (0.07, 0.07), (0,), "base", around=12),
    Limb("arm", ((0, 0, 0.1), (-0.16, 0, 0.56), (0.2, 0, 0.92), (0.48, 0, 0.86)),
        (0.05, 0.045, 0.045, 0.05), (25, 45, 30), "base", sway=0.15),
    Limb("shade", ((0.5, 0, 0.86), (0.72, 0, 0.66)), (0.06, 0.19), (40,), "arm", sway=0.4),
))

_PLIERS = ShapeTemplate("pliers", (
    Limb("jaw", ((0, 0, 0), (0.16, 0.1, 0), (0.46, 0.1, 0)), (0.1, 0.08, 0.05), (0, 0), axis=_UP),
    Limb("handle", ((0, 0, 0), (-0.2, -0.15, 0), (-0.5, -0.24, 0), (-0.85, -0.24, 0)),
        (0.08, 0.065, 0.06, 0.055), (0, 0, 0), "jaw", axis=_UP),
    Limb("other jaw", ((0, 0, 0), (0.16, -0.1, 0), (0.46, -0.1, 0)), (0.1, 0.08, 0.05), (14, 0),
        "jaw", bone=0, axis=_UP, sway=0.1),
    Limb("other handle", ((0, 0, 0), (-0.2, 0.15, 0), (-0.5, 0.24, 0), (-0.85, 0.24, 0)),
        (0.08, 0.065, 0.06, 0.055), (0, 0, 0), "other jaw", bone=0, axis=_UP),
))

_SCISSORS = ShapeTemplate("scissors", (
    Limb("blade", ((-0.3, -0.16, 0), (0, 0, 0), (0.36, 0.19, 0), (0.74, 0.4, 0)),
        (0.05, 0.06, 0.055, 0.03), (0, 0, 0), axis=_UP),
    Limb("grip", _ring((-0.5, -0.27), 0.19, 28.0), (0.045,) * 11, (0,) * 10, "blade", bone=0),
    Limb("other blade", ((0, 0, 0), (0.36, -0.19, 0), (0.74, -0.4, 0)), (0.06, 0.055, 0.03),
        (20, 0), "blade", bone=0, axis=_UP, sway=0.1),
    Limb("other handle", ((0, 0, 0), (-0.3, 0.16, 0)), (0.06, 0.05), (0,), "other blade", bone=0),
    Limb("other grip", _ring((-0.5, 0.27), 0.19, -28.0), (0.045,) * 11, (0,) * 10, "other handle"),
), genus=2)

_TWO_BALLS = ShapeTemplate("two_balls", (
    Limb("ball", ((-0.52, 0, 0), (-0.48, 0, 0)), (0.27, 0.27), (0,)),
    Limb("rod", ((-0.3, 0, 0), (-0.1, 0, 0), (0.1, 0, 0), (0.3, 0, 0)), (0.06, 0.06, 0.06, 0.06),
        (15, 40, 40), "ball"),
    Limb("other ball", ((0.48, 0, 0), (0.52, 0, 0)), (0.27, 0.27), (15,), "rod"),
))

OBJECT_TEMPLATES = (_GLASSES, _HAND, _LAMP, _PLIERS, _SCISSORS, _TWO_BALLS)
# fmt: on
