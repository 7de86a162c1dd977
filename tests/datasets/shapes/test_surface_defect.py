import numpy as np
import pytest

from equigeo.datasets.shapes.surface_defect import surface_defect

_VERTICES = np.concatenate([np.zeros((1, 3)), np.eye(3)])
_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def test_a_sound_surface_has_no_defect():
    assert surface_defect(_VERTICES, _FACES, genus=0) is None


@pytest.mark.parametrize(
    ("vertices", "faces", "genus", "defect"),
    [
        (_VERTICES * np.nan, _FACES, 0, "not finite"),
        (_VERTICES, np.concatenate([_FACES, _FACES]), 0, "two faces on one side"),
        (_VERTICES, np.concatenate([_FACES, [[1, 1, 2]]]), 0, "degenerate"),
        (_VERTICES, _FACES[:3], 0, "one face on each side"),
        (
            np.concatenate([_VERTICES, _VERTICES]),
            np.concatenate([_FACES, _FACES + 4]),
            0,
            "several",
        ),
        (np.concatenate([_VERTICES, _VERTICES[:1]]), _FACES, 0, "unused"),
        (_VERTICES, _FACES, 1, "characteristic is 2, not 0"),
        (_VERTICES * [1, 1, 0], _FACES, 0, "no area"),
        (_VERTICES, _FACES[:, ::-1], 0, "volume"),
    ],
)
def test_every_defect_is_named(vertices, faces, genus, defect):
    assert defect in surface_defect(vertices, faces, genus)
