"""Frames of images from moments of the brightness, and readouts of tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import check_shape, kind_of, takes_integers
from equigeo._core.tensors import (
    HALF,
    computes_in_float32,
    forward_mode_active,
    in_float32,
    transforms_active,
)
from equigeo.affine.samples import check_samples
from equigeo.groups import Affine, GLPlus, GroupSamples, spd_sqrt
from equigeo.reps import Representation, Trivial


@takes_integers
class MomentFrame(nn.Module):
    r"""Resample an image in its own affine frame, :math:`\tilde f(y) = f(c + e\,S^{1/2} y)`.

    The centroid c and the covariance S of the brightness move with the image: for the image
    :math:`f \circ g^{-1}`, g = (b, A), they are :math:`b + A c` and :math:`A S A^T`, and :math:`(A
    S A^T)^{1/2} = A\,S^{1/2} Q` with a rotation Q. The result is therefore rotated by Q and
    otherwise unchanged, so that samples of SO(2) suffice afterwards. Smoothing happens in the
    frame, since a Gaussian in pixels of the image does not move with it.

    The frame is that of the whole image: use it for one object on a background of zero. Second
    derivatives by two backward passes need a PyTorch newer than 2.11; those of :mod:`torch.func` do
    not.

    Affine(GL+(2)) acting on images rotates the result, up to the resolution of the image.
    Reference: Rothe, Süsse and Voss, "The method of normalization to determine invariants", IEEE
    TPAMI 1996.

    Parameters
    ----------
    size : int
        Pixels along each side of the result.
    extent : float
        Half the side of the result, in standard deviations of the brightness.
    smoothing : float
        Standard deviation of the Gaussian, in the same unit; 0 disables it.
    normalize : bool
        Scale each result to root mean square 1/2 (before subtraction, if ``residual``).
    residual : bool
        Subtract the Gaussian with the mass, mean and covariance of the brightness, which is the
        same for all images and therefore carries no information.

    Examples
    --------
    >>> image = torch.zeros(1, 1, 20, 20)
    >>> image[..., 4:16, 9:11] = 1.0  # a bar
    >>> MomentFrame().elements(image)[0].diagonal()[:2]  # deviations in pixels
    tensor([3.4521, 0.5000])
    """

    group = Affine(GLPlus(2))

    def __init__(
        self,
        size: int = 32,
        extent: float = 2.7,
        smoothing: float = 0.0,
        normalize: bool = True,
        residual: bool = False,
    ) -> None:
        super().__init__()
        if size < 1 or not extent > 0 or smoothing < 0:
            raise ValueError(
                "size and extent must be positive, smoothing not negative; "
                f"got {size}, {extent}, {smoothing}"
            )
        self.size, self.extent, self.smoothing = size, extent, smoothing
        self.normalize, self.residual = normalize, residual

    def extra_repr(self) -> str:
        return (
            f"size={self.size}, extent={self.extent}, smoothing={self.smoothing}, "
            f"residual={self.residual}"
        )

    def elements(self, image: Tensor) -> Tensor:
        """Return the frame ``(B, 3, 3)`` of each image ``(B, C, H, W)``.

        Negative values count as zero. The homogeneous matrices map standard deviations to pixels
        ``(row, column)`` from the middle of the image. The frame of an empty image is the identity
        times a quarter of its side.
        """
        _check_images(image)
        if image.dtype in HALF:  # pixel positions are not representable in half precision
            return in_float32(self.elements, [image])
        mass = image.clamp_min(0).sum(1)
        rows, columns = mass.sum(2), mass.sum(1)
        total = rows.sum(1)
        empty = total <= 0
        scale = torch.where(empty, torch.ones_like(total), total)[:, None]
        y, x = (_centered(side, image) for side in mass.shape[1:])
        center = torch.stack([(rows * y).sum(1), (columns * x).sum(1)], dim=1) / scale
        dy, dx = y - center[:, :1], x - center[:, 1:]
        mixed = (dy[:, None] @ mass @ dx[..., None])[:, 0, 0]
        moments = [(rows * dy.square()).sum(1), mixed, mixed, (columns * dx.square()).sum(1)]
        covariance = torch.stack(moments, dim=1).view(-1, 2, 2) / scale[..., None]
        # An image resolves deviations of half a pixel, variance 0.25. Adding it to smaller ellipses
        # keeps the frames of lines and points invertible.
        least = 0.25 * torch.eye(2, dtype=image.dtype, device=image.device)
        thin = (torch.linalg.det(covariance) < 0.25**2)[:, None, None]
        covariance = torch.where(thin, covariance + least, covariance)
        # Default frame of empty images: a quarter of the side, sqrt(0.25) times half of it.
        default = least * (min(mass.shape[1:]) / 2) ** 2
        covariance = torch.where(empty[:, None, None], default, covariance)
        return self.group.element(spd_sqrt(covariance), center)

    @computes_in_float32
    def forward(self, image: Tensor) -> Tensor:
        """Resample images ``(B, C, H, W)`` to ``(B, C, size, size)``, zero outside of the image."""
        _check_images(image)
        if image.dtype in HALF:
            return in_float32(self.forward, [image])
        # Scaled so that squares neither overflow nor underflow. The scale is divided out or
        # multiplied back, so that treating it as a constant gives the right gradients.
        largest = image.detach().abs().amax((1, 2, 3), keepdim=True)
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        image = image / scale
        elements = self.elements(image)
        seen = self._view(image, elements)
        # Normalize the brightness, which depends on the camera; empty frames are unchanged.
        power = seen.square().mean((1, 2, 3), keepdim=True)
        gain = 0.5 * torch.where(power > 0, power, torch.ones_like(power)).rsqrt()
        if self.residual:
            seen = seen - self._common(image, elements)
        return seen * (gain if self.normalize else scale)

    def _view(self, image: Tensor, elements: Tensor) -> Tensor:
        """Resample the image on a grid of the frame, finer than the result, and smooth it there."""
        step = 2 * self.extent / self.size
        axis = output = _centered(self.size, image) * step
        if self.smoothing > 0:
            # Sample the Gaussian at steps of at most a quarter of its deviation, and the image at
            # steps of at most a pixel: the deviation of a full image is 1 / sqrt(12) of its side.
            pixel = math.sqrt(12) / max(image.shape[2:])
            fine = math.ceil(step / min(self.smoothing / 4, pixel))
            reach = math.ceil(4 * self.smoothing * fine / step)  # 6e-5 of the mass lie beyond
            axis = _centered(self.size * fine + 2 * reach, image) * (step / fine)
        # Positions are sums of two terms, of which each depends on one coordinate.
        rows, columns = (
            axis[:, None] * column[:, None] for column in elements[:, :2, :2].unbind(2)
        )
        seen = interpolate(refine(image), 2 * rows, 2 * (columns + elements[:, None, :2, 2]))
        if self.smoothing == 0:
            return seen
        weight = torch.exp(-0.5 * ((output[:, None] - axis) / self.smoothing).square())
        weight = weight / weight.sum(1, keepdim=True)
        return weight @ seen @ weight.mT

    def _common(self, image: Tensor, elements: Tensor) -> Tensor:
        """Return a smoothed Gaussian of unit covariance with the mass of the channels."""
        # All images share it in their frames; small changes of its height change all features.
        variance = 1 + self.smoothing**2
        axis = _centered(self.size, image) * (2 * self.extent / self.size)
        bell = torch.exp(-0.5 * axis.square() / variance) / math.sqrt(2 * math.pi * variance)
        mass = image.sum((2, 3)) / torch.linalg.det(elements[:, :2, :2])[:, None]
        return mass[..., None, None] * (bell[:, None] * bell)


class TensorReadout(nn.Module):
    r"""Integral of a representation against features, :math:`\int_H \rho(h)\, F(x, h)\, d\mu_H(h)`.

    The input ``F(g^-1 (x, h))`` gives ``rho(A) out(g^-1 x)`` for ``g = (b, A)``, up to the
    quadrature.

    Parameters
    ----------
    rep_out : Representation
        Linear, of a group that the group of the samples maps to, such as ``TensorRep(SL(2), up=1)``
        for vectors or ``TensorRep(GLPlus(2), up=0, density=-1.0)`` for densities of mass.

    Examples
    --------
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> from equigeo.reps import TensorRep
    >>> layer = TensorReadout(TensorRep(SO(2), up=1))
    >>> layer(torch.rand(2, 6, 8, 9, 9), equidistant_rotations(8)).shape  # 3 vectors
    torch.Size([2, 3, 9, 9, 2])
    """

    def __init__(self, rep_out: Representation) -> None:
        super().__init__()
        if not rep_out.is_linear:
            raise ValueError(f"a read-out needs a linear representation, got {rep_out}")
        self.rep_in, self.rep_out = Trivial(rep_out.group, rep_out.dim), rep_out

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Integrate ``(B, C * rep_out.dim, N, *S)`` to tensors ``(B, C, *S, rep_out.dim)``.

        The components of a tensor are adjacent channels.
        """
        check_samples(samples)
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        dim = self.rep_out.dim
        if x.ndim < 3 or x.shape[1] % dim or x.shape[2] != len(samples):
            raise ValueError(
                f"features must be (B, C * {dim}, {len(samples)}, *S), got {tuple(x.shape)}"
            )
        if not samples.group.maps_to(self.rep_out.group):
            raise ValueError(f"samples must be of {self.rep_out.group}, got {samples.group}")
        rep = self.rep_out.restrict(samples.group)
        # With h = A h', rho(h) F(A^-1 h) is rho(A) rho(h') F(h'): the sum transforms by rho(A).
        matrices = (rep.matrix(samples.h) * samples.mean_weight[:, None, None]).to(x)
        return torch.einsum("ade,bcea...->bc...d", matrices, x.unflatten(1, (-1, dim)))


def refine(
    image: Tensor,  # (B, C, H, W), zero beyond the edges
) -> Tensor:  # (B, C, 2 H + 8, 2 W + 8), two pixels of margin
    """Double the resolution of images so that bilinear interpolation of the result is sharp."""
    # Cubic convolution (Keys, IEEE TASSP 1981) doubles the pixels; weights (-1, 14, -1) / 12
    # between them remove the blur of bilinear interpolation, a variance of 1/6 per axis.
    down, right = (_refinement(size, image) for size in image.shape[2:])
    return down @ image @ right.mT


def _refinement(size: int, like: Tensor) -> Tensor:
    """Return the matrix that doubles an axis, (2 size + 8, size)."""
    places = _centered(2 * size + 8, like) / 2
    distance = places[:, None] - _centered(size, like)
    beside = _keys(distance - 0.5) + _keys(distance + 0.5)
    return (14 * _keys(distance) - beside) / 12


def _keys(distance: Tensor) -> Tensor:
    """Evaluate the cubic convolution kernel with parameter -1/2, which is exact on parabolas."""
    x = distance.abs()
    near = 1 + x.square() * (1.5 * x - 2.5)
    far = 2 + x * (-4 + x * (2.5 - 0.5 * x))
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def interpolate(
    image: Tensor,  # (B, C, H, W)
    rows: Tensor,  # (B, P, 2) and
    columns: Tensor,  # (B, Q, 2), (row, column) in pixels from the middle
) -> Tensor:  # (B, C, P, Q)
    """Interpolate images bilinearly at sums of two positions; zero outside."""
    if not torch.compiler.is_compiling() and (transforms_active() or forward_mode_active()):
        positions = (rows[:, :, None] + columns[:, None]).flatten(1, 2)
        seen = _interpolate_by_corners(image, positions)
        return seen.unflatten(2, (rows.shape[1], columns.shape[1]))
    half = rows.new_tensor(image.shape[2:]) / 2
    # grid_sample wants (column, row), edges of the image at -1 and 1.
    rows, columns = (rows / half).flip(-1), (columns / half).flip(-1)
    grid = rows[:, :, None] + columns[:, None]
    return F.grid_sample(image, grid, mode="bilinear", align_corners=False)


def _interpolate_by_corners(image: Tensor, positions: Tensor) -> Tensor:
    """Interpolate by ops that support forward mode, unlike ``grid_sample``."""
    height, width = image.shape[2:]
    middle = positions.new_tensor((height - 1, width - 1)) / 2
    pixel = positions + middle
    first = pixel.detach().floor()
    share = (pixel - first).unbind(-1)
    place = first.long().unbind(-1)
    seen = image.new_zeros(())
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = (first + step for first, step in zip(place, corner, strict=True))
        there = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        flat = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
        flat = flat[:, None].expand(-1, image.shape[1], -1)
        # Bilinear weights.
        down, right = (s if step else 1 - s for s, step in zip(share, corner, strict=True))
        seen = seen + image.flatten(2).gather(2, flat) * (down * right * there)[:, None]
    return seen


def _check_images(image: Tensor) -> None:
    """Raise if a value is not a batch of images."""
    if not isinstance(image, Tensor):
        raise TypeError(f"images must be a Tensor, got {kind_of(image)}")
    check_shape(image, "images", ("B", "C", "H", "W"))
    if not image.is_floating_point():
        raise ValueError(f"images must be floating, got {image.dtype}")


def _centered(size: int, like: Tensor) -> Tensor:
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2
