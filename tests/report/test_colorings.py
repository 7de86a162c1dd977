from itertools import combinations

import pytest

from equigeo.report.plots import attention_color, colorings, distinct_color, hexadecimal, part_color


def test_twelve_colours_are_told_apart_and_without_saturation_everything_is_grey():
    colors = [distinct_color(number, 0.6) for number in range(12)]
    assert all(0 <= channel <= 255 for color in colors for channel in color)
    # a difference of 20 in one channel is seen where colours touch
    gaps = [max(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in combinations(colors, 2)]
    assert min(gaps) >= 20
    assert len(set(distinct_color(7, 0.0))) == 1
    assert hexadecimal((0, 10, 255)) == "#000aff"


SHAPE = {"faces": [[0, 1, 2]] * 4, "levels": [[0, 0, 1, 2], [0, 0, 1, 1]]}


def _colors(shape, name):
    return colorings(shape)[name].colors


def test_clusters_and_errors_have_their_colours():
    fine, coarse = (_colors(SHAPE, f"clusters after pooling {number}") for number in (1, 2))
    assert fine[0] == fine[1] != fine[2] == fine[3]
    assert coarse[0] == coarse[1] != coarse[2] == coarse[3] != fine[2]
    seen = SHAPE | {"predicted_parts": [0, 1, 1, 1], "labelled_parts": [0, 1, 0, -1]}
    errors = _colors(seen, "errors")
    assert errors[0] == errors[1]
    assert len(set(errors)) == 3


def test_parts_have_one_colour_in_every_shape():
    some, others = ({"predicted_parts": parts} for parts in ([0, 1, 2, 3], [3, 2, 1, 0]))
    first = _colors(SHAPE | some, "predicted parts")
    assert first == _colors(SHAPE | others, "predicted parts")[::-1]
    assert len(set(first)) == 4
    red, green, blue = part_color(-1)
    assert red == green == blue


def test_attention_has_a_colour_of_its_own_on_both_sides_of_an_even_one():
    shape = SHAPE | {"attention": [[0.2, 0.8, 1.0, 1.2], [0.9, 1.0, 1.1, 3.0]]}
    names = [name for name, one in colorings(shape).items() if one.kind == "attention"]
    assert names == ["attention in block 2", "attention in block 1"]  # the coarsest first
    assert len(set(_colors(shape, "attention in block 1"))) == 4
    assert _colors(shape, "attention in block 2")[1] == _colors(shape, "attention in block 1")[2]


@pytest.mark.parametrize(("value", "strongest"), [(0.5, 2), (0.8, 2), (1.2, 0), (1.5, 0)])
def test_little_attention_is_blue_and_much_is_red(value, strongest):
    color = attention_color(value)
    assert color[strongest] == max(color) > min(color)
    assert attention_color(0.0) == attention_color(0.5) != attention_color(0.6)
    assert attention_color(9.0) == attention_color(1.5) != attention_color(1.4)
