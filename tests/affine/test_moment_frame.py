"""The frame of an image moves with the image."""

import pytest
import torch
from torch import Tensor

from equigeo.affine import MomentFrame
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import GLPlus, rotation_log, spd_sqrt
from equigeo.testing import tolerance
from tests.affine.analytic_features import GaussianMixture, tensor
from tests.wrong_inputs import refused

A = tensor([[1.15, 0.25], [-0.1, 0.9]])
STRETCH = tensor([[1.3, 0.0], [0.0, 0.8]])


def mixture() -> GaussianMixture:
    """A positive mixture of Gaussians."""
    f = GaussianMixture.standard()
    return GaussianMixture(f.amplitudes.abs(), f.means, f.covariances)


def draw(f: GaussianMixture, pixels: int) -> Tensor:
    """Draw on a grid over [-3, 3]^2."""
    return f.values(kernel_grid(pixels, 2, 3.0)).view(1, 1, pixels, pixels)


def smooth(f: GaussianMixture, width: Tensor) -> GaussianMixture:
    """Convolve with a Gaussian of integral 1 and the given covariance."""
    wide = f.covariances + width
    shrink = (torch.linalg.det(f.covariances) / torch.linalg.det(wide)).sqrt()
    return GaussianMixture(f.amplitudes * shrink, f.means, wide)


def exact_view(f: GaussianMixture, smoothing: float, residual: bool, size: int) -> Tensor:
    """What the frame of 2.7 deviations shows of the function itself, without normalization."""
    weight = f.amplitudes * torch.linalg.det(f.covariances).sqrt()
    mass = weight.sum()
    center = (weight[:, None] * f.means).sum(0) / mass
    apart = f.means - center
    second = f.covariances + apart[:, :, None] * apart[:, None]
    covariance = (weight[:, None, None] * second).sum(0) / mass
    frame = spd_sqrt(covariance)
    points = kernel_grid(size, 2, 2.7)
    positions = points @ frame.mT + center
    seen = smooth(f, smoothing**2 * covariance).values(positions)
    if residual:
        one = GaussianMixture(tensor([1.0]), center[None], covariance[None])
        height = mass / torch.linalg.det(covariance).sqrt()
        seen = seen - height * smooth(one, smoothing**2 * covariance).values(positions)
    return seen.view(1, 1, size, size)


def test_frame_moves_with_the_image() -> None:
    pixels, identity = 64, torch.eye(2, dtype=torch.float64)
    frame = MomentFrame()
    before, after = (frame.elements(draw(mixture().moved(a), pixels))[0] for a in (identity, A))
    # Gaussians leave 3e-10 of their mass beyond the edges, six deviations and 32 pixels away.
    torch.testing.assert_close(after[:2, 2], A @ before[:2, 2], rtol=0, atol=1e-8)
    rotation = torch.linalg.solve(A @ before[:2, :2], after[:2, :2])
    # The same mass, times six squared in second moments.
    torch.testing.assert_close(rotation @ rotation.mT, identity, rtol=0, atol=1e-8)
    assert abs(float(rotation_log(rotation))) > 0.01  # the part that is left to the samples


def test_what_is_seen_turns_and_converges_with_the_pixels() -> None:
    frame, errors = MomentFrame(size=15, extent=2.0), []
    turned = MomentFrame(size=15, extent=2.0)
    for pixels in (32, 64, 128):
        before, after = (draw(f, pixels) for f in (mixture(), mixture().moved(A)))
        element, moved = frame.elements(before), frame.elements(after)
        rotation = torch.linalg.solve(A @ element[0, :2, :2], moved[0, :2, :2])
        element[..., :2, :2] = element[..., :2, :2] @ rotation
        turned.elements = lambda _, element=element: element  # type: ignore[method-assign]
        expected = turned(before)
        errors.append(float((frame(after) - expected).abs().max() / expected.max()))
    assert errors[0] < 0.1
    assert errors[2] < errors[1] / 2.5 < errors[0] / 6


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("a", [torch.eye(2, dtype=torch.float64), A], ids=["still", "moved"])
def test_smoothed_view_is_that_of_the_continuum(a: Tensor, residual: bool) -> None:
    frame = MomentFrame(size=15, smoothing=0.3, normalize=False, residual=residual)
    expected, errors = exact_view(mixture().moved(a), 0.3, residual, 15), []
    for pixels in (24, 48, 96):
        error = (
            frame(draw(mixture().moved(a), pixels)) - expected
        ).abs().max() / expected.abs().max()
        errors.append(float(error))
    # cubic convolution is of third order: eight times less for twice the pixels
    assert errors[2] < errors[1] / 8 < errors[0] / 64
    # At quarters of pixels it errs by h^3 f''' / 64, where f''' is at most 1.4 / 0.14^3 for the
    # narrowest Gaussian: 1.9e-3 of its height.
    assert errors[2] < 2e-3


def test_blur_of_the_image_moves_with_it_at_no_resolution() -> None:
    width, changes = 0.15**2 * torch.eye(2, dtype=torch.float64), []
    frame = MomentFrame(size=33, smoothing=0.1)
    f = mixture()
    for pixels in (32, 64, 128):
        for blurred in (False, True):
            before, after = (
                draw(smooth(g, width) if blurred else g, pixels) for g in (f, f.moved(STRETCH))
            )
            changes.append(float((power(frame(after)) / power(frame(before)) - 1).abs().max()))
    within, beside = changes[::2], changes[1::2]
    assert within[2] < within[1] < within[0]
    # h^3 f''' / 64 of cubic convolution, for f''' = 1.4 / 0.12^3 of the narrowest Gaussian: 1.3e-3.
    assert within[2] < 2e-3
    assert min(beside) > 20 * within[2]


def power(seen: Tensor) -> Tensor:
    """Moments of the radius, which a turn leaves as they are."""
    radius = kernel_grid(seen.shape[-1], 2, 2.7).square().sum(-1)
    weight = torch.stack([torch.exp(-radius / width) for width in (0.5, 1.0, 2.0)])
    return (weight * seen.flatten()).sum(1) / seen.sum()


def test_large_objects_are_read_without_gaps() -> None:
    image = torch.ones(1, 1, 192, 192, dtype=torch.float64)
    image[..., ::2] = 0.0
    frame = MomentFrame(size=8, smoothing=0.6)
    flat = frame(torch.ones_like(image))
    for seen in (frame(image), frame(image.roll(1, -1))):
        # The last stripe may be missing, one pixel of 192.
        torch.testing.assert_close(seen, flat, rtol=0, atol=1 / 192)


def test_residual_is_nothing_for_a_gaussian() -> None:
    one = GaussianMixture(tensor([1.0]), tensor([[0.2, -0.1]]), tensor([[[0.3, 0.1], [0.1, 0.2]]]))
    frame = MomentFrame(size=15, smoothing=0.3, residual=True)
    # h^3 f''' / 64 of cubic convolution, for f''' = 1.4 / 0.37^3, is 4e-4 of the height.
    assert float(frame(draw(one, 64)).abs().max()) < 1e-3
    assert float(frame(draw(mixture().moved(A), 64)).abs().max()) > 0.1
    assert not MomentFrame(smoothing=0.3, residual=True)(torch.zeros(1, 2, 9, 9)).any()


def test_shifts_by_pixels_and_quarter_turns_are_exact() -> None:
    image = torch.zeros(1, 1, 24, 24, dtype=torch.float64)
    image[..., 6:15, 7:13] = torch.rand(9, 6, dtype=torch.float64)
    frame = MomentFrame(smoothing=0.25, residual=True)
    seen, close = frame(image), tolerance(torch.float64, terms=24 * 24)
    shifted = frame(image.roll((3, -2), (-2, -1)))
    torch.testing.assert_close(shifted, seen, **close)
    turned = frame(image.rot90(1, (-2, -1)))
    torch.testing.assert_close(turned, seen.rot90(1, (-2, -1)), **close)


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
    seen = MomentFrame(size=8, smoothing=0.25, residual=True)(image)
    seen.square().sum().backward()
    assert torch.isfinite(seen).all()
    assert torch.isfinite(image.grad).all()


def test_frame_is_an_affine_element_and_other_images_raise() -> None:
    elements = MomentFrame().elements(torch.rand(3, 1, 9, 11, dtype=torch.float64))
    assert MomentFrame.group.contains(elements).all()
    assert MomentFrame.group.linear_group == GLPlus(2)
    refused(r"\(B, C, H, W\)", MomentFrame().elements, torch.rand(9, 9))
    refused("must be floating", MomentFrame().elements, torch.rand(1, 1, 9, 9).long())
    refused("must be positive", MomentFrame, size=0)


@pytest.mark.parametrize("residual", [False, True])
def test_brightness_of_any_unit_is_divided_out(residual: bool) -> None:
    image = draw(mixture().moved(A), 28).float()
    frame = MomentFrame(16, residual=residual)
    expected = frame(image)
    assert float(expected.abs().max()) > 0.1
    raw = MomentFrame(16, residual=residual, normalize=False)
    for scale in (1e-30, 1e-24, 1e19, 1e30):
        close = tolerance(torch.float32, terms=28)
        torch.testing.assert_close(frame(image * scale), expected, **close)
        torch.testing.assert_close(raw(image * scale) / scale, raw(image), **close)
