from __future__ import annotations

from equigeo.report.colorings import colorings, part_color

SHAPE = {"faces": [[0, 1, 2]] * 4, "levels": [[0, 0, 1, 2], [0, 0, 1, 1]]}


def test_clusters_share_a_colour_and_single_faces_are_grey():
    fine, coarse = (colorings(SHAPE)[f"after pooling {number}"] for number in (1, 2))
    assert fine[0] == fine[1] != fine[2] == fine[3]
    assert coarse[0] == coarse[1] != coarse[2] == coarse[3] != fine[2]


def test_right_wrong_and_unlabelled_faces_have_three_colours():
    seen = SHAPE | {"predicted_parts": [0, 1, 1, 1], "labelled_parts": [0, 1, 0, -1]}
    errors = colorings(seen)["errors"]
    assert errors[0] == errors[1]
    assert len(set(errors)) == 3


def test_parts_have_one_colour_in_every_shape():
    some, others = ({"predicted_parts": parts} for parts in ([0, 1, 2, 3], [3, 2, 1, 0]))
    first = colorings(SHAPE | some)["predicted parts"]
    assert first == colorings(SHAPE | others)["predicted parts"][::-1]
    assert len(set(first)) == 4


def test_an_unknown_part_is_grey():
    red, green, blue = part_color(-1)
    assert red == green == blue
