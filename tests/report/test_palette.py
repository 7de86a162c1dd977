from __future__ import annotations

from itertools import combinations

from equigeo.report.palette import distinct_color, hexadecimal


def test_twelve_colours_are_told_apart():
    colors = [distinct_color(number, 0.6) for number in range(12)]
    assert all(0 <= channel <= 255 for color in colors for channel in color)
    # a difference of 20 in one channel is seen where colours touch
    gaps = [max(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in combinations(colors, 2)]
    assert min(gaps) >= 20


def test_without_saturation_everything_is_grey():
    assert len(set(distinct_color(7, 0.0))) == 1
    assert hexadecimal((0, 10, 255)) == "#000aff"
