"""The frame of an image moves with the image."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equigeo.affine import MomentFrame, kernel_grid
from equigeo.groups import GLPlus, rotation_log
from tests.affine.analytic_features import GaussianMixture, tensor

A = tensor([[1.15, 0.25], [-0.1, 0.9]])


def picture(a: Tensor, pixels: int) -> Tensor:
    """A positive mixture of Gaussians, moved by a, on a grid over [-3, 3]^2."""
    f = GaussianMixture.standard()
    f = GaussianMixture(f.amplitudes.abs(), f.means, f.covariances).moved(a)
    return f.values(kernel_grid(pixels, 2, 3.0)).view(1, 1, pixels, pixels)


def test_frame_moves_with_the_image() -> None:
    pixels, identity = 64, torch.eye(2, dtype=torch.float64)
    frame = MomentFrame()
    before, after = (frame.elements(picture(a, pixels))[0] for a in (identity, A))
    torch.testing.assert_close(after[:2, 2], A @ before[:2, 2], rtol=0, atol=1e-4)
    rotation = torch.linalg.solve(A @ before[:2, :2], after[:2, :2])
    torch.testing.assert_close(rotation @ rotation.mT, identity, rtol=0, atol=1e-5)
    assert abs(float(rotation_log(rotation))) > 0.01  # the part that is left to the samples


def test_what_is_seen_turns_and_converges_with_the_pixels() -> None:
    frame, errors = MomentFrame(size=15, extent=2.0), []
    turned = MomentFrame(size=15, extent=2.0)
    for pixels in (32, 64, 128):
        before, after = picture(torch.eye(2, dtype=torch.float64), pixels), picture(A, pixels)
        rotation = torch.linalg.solve(
            A @ frame.elements(before)[0, :2, :2], frame.elements(after)[0, :2, :2]
        )
        element = frame.elements(before)
        element[..., :2, :2] = element[..., :2, :2] @ rotation
        turned.elements = lambda _, element=element: element  # type: ignore[method-assign]
        expected = turned(before)
        errors.append(float((frame(after) - expected).abs().max() / expected.max()))
    assert errors[0] < 0.1
    assert errors[2] < errors[1] / 2.5 < errors[0] / 6


def test_shifts_by_pixels_and_quarter_turns_are_exact() -> None:
    image = torch.zeros(1, 1, 24, 24, dtype=torch.float64)
    image[..., 6:15, 7:13] = torch.rand(9, 6, dtype=torch.float64)
    frame = MomentFrame(blur=0.7)
    seen = frame(image)
    shifted = frame(image.roll((3, -2), (-2, -1)))
    torch.testing.assert_close(shifted, seen, rtol=0, atol=1e-12)
    turned = frame(image.rot90(1, (-2, -1)))
    torch.testing.assert_close(turned, seen.rot90(1, (-2, -1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", ["empty", "point", "line", "negative"])
def test_images_without_a_frame_give_finite_values_and_gradients(shape: str) -> None:
    image = torch.zeros(1, 1, 12, 12)
    if shape == "point":
        image[..., 5, 5] = 1.0
    if shape == "line":
        image[..., 5, 2:9] = 1.0
    if shape == "negative":
        image -= 1.0
    image.requires_grad_()
    seen = MomentFrame(size=8)(image)
    seen.square().sum().backward()
    assert torch.isfinite(seen).all()
    assert torch.isfinite(image.grad).all()


def test_frame_is_an_element_of_the_affine_group() -> None:
    elements = MomentFrame().elements(torch.rand(3, 1, 9, 11, dtype=torch.float64))
    assert MomentFrame.group.contains(elements).all()
    assert MomentFrame.group.linear_group == GLPlus(2)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"\(B, C, H, W\)"):
        MomentFrame().elements(torch.rand(9, 9))
    with pytest.raises(ValueError, match="must be floating"):
        MomentFrame().elements(torch.rand(1, 1, 9, 9).long())
    with pytest.raises(ValueError, match="must be positive"):
        MomentFrame(size=0)
