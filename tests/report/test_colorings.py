from __future__ import annotations

import pytest

from equigeo.report.colorings import attention_color, colorings, part_color

SHAPE = {"faces": [[0, 1, 2]] * 4, "levels": [[0, 0, 1, 2], [0, 0, 1, 1]]}


def _colors(shape, name):
    return colorings(shape)[name].colors


def test_clusters_share_a_colour_and_single_faces_are_grey():
    fine, coarse = (_colors(SHAPE, f"clusters after pooling {number}") for number in (1, 2))
    assert fine[0] == fine[1] != fine[2] == fine[3]
    assert coarse[0] == coarse[1] != coarse[2] == coarse[3] != fine[2]


def test_right_wrong_and_unlabelled_faces_have_three_colours():
    seen = SHAPE | {"predicted_parts": [0, 1, 1, 1], "labelled_parts": [0, 1, 0, -1]}
    errors = _colors(seen, "errors")
    assert errors[0] == errors[1]
    assert len(set(errors)) == 3


def test_parts_have_one_colour_in_every_shape():
    some, others = ({"predicted_parts": parts} for parts in ([0, 1, 2, 3], [3, 2, 1, 0]))
    first = _colors(SHAPE | some, "predicted parts")
    assert first == _colors(SHAPE | others, "predicted parts")[::-1]
    assert len(set(first)) == 4


def test_an_unknown_part_is_grey():
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


def test_attention_beyond_the_ends_of_the_scale_has_their_colours():
    assert attention_color(0.0) == attention_color(0.5) != attention_color(0.6)
    assert attention_color(9.0) == attention_color(1.5) != attention_color(1.4)
