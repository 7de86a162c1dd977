import numpy as np
import pytest

from equigeo.datasets.engraved.icon_template import Ellipse, Lobes, Polygon, Stroke

_STEP = 0.02
_TICKS = np.arange(-1.5, 1.5, _STEP) + _STEP / 3
_POINTS = np.stack(np.meshgrid(_TICKS, _TICKS), axis=-1)


class _Nominal:
    """In place of random numbers, the middle of every range."""

    @staticmethod
    def uniform(low, high):
        return (low + high) / 2


def _area(part, generator):
    return part.contains(_POINTS, generator).sum() * _STEP**2


@pytest.mark.parametrize(
    ("part", "area"),
    [
        (Stroke(((-0.5, 0.0), (0.5, 0.0)), 0.2), 0.4 + np.pi * 0.04),
        (Ellipse((0.1, 0.2), (0.8, 0.5)), np.pi * 0.4),
        (Ellipse((0.0, 0.0), (0.5, 0.5), 60.0), 1.0),
        (Polygon(((0, 0), (1, 0), (1, 1), (0.5, 0.5), (0, 1))), 0.75),
        (Polygon(((0, 1), (0.5, 0.5), (1, 1), (1, 0), (0, 0))), 0.75),
        # half of the integral of the squared radius: mean square plus half of the amplitude's
        (Lobes(3, 0.4, 0.8), np.pi * (0.6**2 + 0.2**2 / 2)),
        (Lobes(5, 0.4, 0.8, "pointed"), np.pi * (0.6**2 + 0.2**2 / 3)),
    ],
)
def test_areas_are_those_of_elementary_geometry(part, area):
    assert abs(_area(part, _Nominal()) - area) < 0.02 * area


@pytest.mark.parametrize("profile", ["round", "pointed", "square"])
def test_lobes_are_as_many_as_asked_for_and_one_points_up(profile):
    angles = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    circle = 0.6 * np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    inside = Lobes(7, 0.4, 0.8, profile).contains(circle, _Nominal())
    assert inside[0]
    assert np.sum(inside & ~np.roll(inside, 1)) == 7


@pytest.mark.parametrize(
    ("part", "share", "power"),
    [
        (Stroke(((0.0, 0.0), (1e-9, 0.0)), 0.5), 0.2, 2),  # almost a disc: its area grows as r^2
        (Ellipse((0.0, 0.0), (0.8, 0.5)), 0.15, 2),
        (Polygon(((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))), 0.15, 2),
        (Lobes(2, 0.6, 0.6), 0.15, 2),
    ],
)
def test_sizes_vary_by_their_share_and_no_more(part, share, power):
    generator = np.random.default_rng(0)
    nominal = _area(part, _Nominal())
    ratios = np.array([_area(part, generator) / nominal for _ in range(60)]) ** (1 / power)
    assert ratios.min() > 1 - share - 0.02
    assert ratios.max() < 1 + share + 0.02
    assert np.ptp(ratios) > share
