import numpy as np
import pytest
from scipy import ndimage

from equigeo.datasets.engraved.draw_icon import SIZE, draw_icon
from equigeo.datasets.engraved.icon_template import Ellipse, IconTemplate, Stroke
from equigeo.datasets.engraved.icon_templates import ICON_TEMPLATES

_HOLES = {"gear": 1, "key": 1, "ring": 1}


@pytest.fixture(scope="module")
def icons():
    return {t.name: [draw_icon(t, 0, k) for k in range(20)] for t in ICON_TEMPLATES}


def test_there_are_at_least_22_classes_in_alphabetical_order():
    names = [template.name for template in ICON_TEMPLATES]
    assert len(names) >= 22
    assert names == sorted(set(names))


def test_icons_are_connected_and_within_the_picture(icons):
    for name, pictures in icons.items():
        for picture in pictures:
            assert picture.shape == (SIZE, SIZE)
            assert ndimage.label(picture)[1] == 1, name
            border = np.concatenate([picture[[0, -1]].reshape(-1), picture[:, [0, -1]].reshape(-1)])
            assert not border.any(), name


def test_most_icons_have_the_holes_of_their_class(icons):
    # sizes vary independently, so that now and then a hole closes or a gap does
    for name, pictures in icons.items():
        holes = [ndimage.label(~picture)[1] - 1 for picture in pictures]
        assert holes.count(_HOLES.get(name, 0)) >= 17, (name, holes)


def test_all_icons_differ(icons):
    packed = {picture.tobytes() for pictures in icons.values() for picture in pictures}
    assert len(packed) == 20 * len(ICON_TEMPLATES)


def test_an_icon_depends_on_seed_name_and_number_alone(icons):
    template = ICON_TEMPLATES[3]
    assert np.array_equal(draw_icon(template, 0, 7), icons[template.name][7])
    assert not np.array_equal(draw_icon(template, 1, 7), icons[template.name][7])
    renamed = IconTemplate("another", template.parts)
    assert not np.array_equal(draw_icon(renamed, 0, 7), icons[template.name][7])


def test_the_largest_component_is_kept():
    parts = (Ellipse((-0.6, 0.0), (0.3, 0.3)), Ellipse((0.6, 0.0), (0.15, 0.15)))
    picture = draw_icon(IconTemplate("planet and moon", parts), 0, 0)
    columns = np.flatnonzero(picture.any(axis=0))
    assert columns.max() < SIZE / 2


def test_an_icon_of_which_nothing_is_left_is_refused():
    template = IconTemplate("dot", (Stroke(((0.0, 0.0), (0.1, 0.0)), 0.02),))
    with pytest.raises(RuntimeError, match=r"icon 'dot' number 3 has \d+ pixels"):
        draw_icon(template, 0, 3)
