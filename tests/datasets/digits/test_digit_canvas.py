"""Digits of any size, on paper or on black, come onto the canvas as MNIST's digits do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from equigeo.datasets import centred, digit_canvas
from tests.datasets.digits import synthetic_digits

DIGIT = synthetic_digits(1)[0][0]


def test_sizes_of_the_data_sets_are_taken_as_they_are():
    canvas = centred(DIGIT)
    for image in (DIGIT, canvas):
        found, note = digit_canvas(image)
        assert torch.equal(found, canvas)
        assert note == ""


def test_ink_on_paper_is_inverted():
    found, note = digit_canvas(255 - DIGIT)
    assert torch.equal(found, centred(DIGIT))
    assert note == "inverted, for its border is bright"


def test_a_larger_image_shows_the_same():
    canvas = centred(DIGIT)
    large = F.interpolate(canvas[None, None], scale_factor=5, mode="nearest")[0, 0]
    found, note = digit_canvas(large)
    assert note == "scaled from 200 x 200"
    # the filter reaches over a pixel of the canvas to each side; mass stays
    assert float(found.sum()) == pytest.approx(float(canvas.sum()), rel=1e-2)
    far = F.max_pool2d(canvas[None].float(), 3, 1, 1)[0] == 0
    assert int(found[far].max()) == 0


@pytest.mark.parametrize("shape", [(28, 100), (100, 28)])
def test_an_oblong_image_keeps_its_proportions(shape):
    image = torch.zeros(shape, dtype=torch.uint8)
    middle = tuple(slice(n // 2 - 10, n // 2 + 10) for n in shape)
    image[middle] = 200
    found, _ = digit_canvas(image)
    rows, columns = (int((found > 100).any(axis).sum()) for axis in (1, 0))
    assert rows == columns == 8  # 20 of 100 pixels


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (28, 28)])
def test_an_image_of_nothing_is_refused(shape):
    with pytest.raises(ValueError, match="shows nothing"):
        digit_canvas(torch.zeros(shape, dtype=torch.uint8))
