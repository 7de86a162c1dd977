"""Frames that images carry: mean and covariance of their brightness."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.graphs.inputs import check_shape, kind_of
from equigeo.groups import Affine, GLPlus, spd_sqrt
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.ops.runtime.torch_internals import forward_mode_active, transforms_active


class MomentFrame(nn.Module):
    r"""Sees an image from its own affine frame, :math:`\tilde f(y) = f(c + e\,S^{1/2} y)`.

    The centroid c and the covariance S of the brightness move with the image: for the image
    :math:`f \circ g^{-1}`, g = (b, A), they are :math:`b + A c` and :math:`A S A^T`, and
    :math:`(A S A^T)^{1/2} = A\,S^{1/2} Q` with a rotation Q. What the frame shows is therefore
    turned by Q and otherwise unchanged: of the six dimensions of the affine group, five that are
    not compact are gone, without windows, and samples of SO(2) deal with the last.

    The frame is that of the whole image: it wants one object on a background of zero. Clutter
    moves it; parts that move by themselves are not treated by themselves.

    Parameters
    ----------
    size : int
        Pixels of each side of the result.
    extent : float
        Half the side of the result, in standard deviations of the brightness.
    blur : float
        Standard deviation of a Gaussian applied to the image, in its pixels, after the frame was
        found: what the pixel grid cannot move faithfully is better not seen. 0 is none.
    normalize : bool
        Scale every result to a root mean square of 1.

    Equivariance
    ------------
    Affine(GL+(2)) acting on images turns the result by a rotation, up to interpolation.

    References
    ----------
    Rothe, Süsse and Voss, "The method of normalization to determine invariants", IEEE TPAMI 1996.

    Examples
    --------
    >>> import torch
    >>> image = torch.zeros(1, 1, 20, 20)
    >>> image[..., 4:16, 9:11] = 1.0  # a bar
    >>> frame = MomentFrame(size=8)
    >>> frame.elements(image)[0].diagonal()[:2]  # deviations along rows and columns, in pixels
    tensor([3.4521, 0.5000])
    >>> frame(image).shape
    torch.Size([1, 1, 8, 8])
    """

    group = Affine(GLPlus(2))

    def __init__(
        self, size: int = 32, extent: float = 2.7, blur: float = 0.0, normalize: bool = True
    ) -> None:
        super().__init__()
        if size < 1 or not extent > 0 or blur < 0:
            raise ValueError(
                f"size and extent must be positive, blur not negative; got {size}, {extent}, {blur}"
            )
        self.size, self.extent, self.blur, self.normalize = size, extent, blur, normalize

    def extra_repr(self) -> str:
        """Name the options."""
        return f"size={self.size}, extent={self.extent}, blur={self.blur}"

    def elements(self, image: Tensor) -> Tensor:
        """Give the frame of each image: its columns are the axes, in pixels, and the centre.

        Parameters
        ----------
        image : Tensor, (B, C, H, W), floating
            Brightness, zero in the background; negative values count as zero.

        Returns
        -------
        Tensor, (B, 3, 3), dtype of ``image``
            Homogeneous matrices from standard deviations to pixels ``(row, column)`` from the
            middle of the image; the identity times a quarter of the side for an empty image.

        Raises
        ------
        TypeError
            If it is no tensor.
        ValueError
            If ``image`` is not ``(B, C, H, W)``, or not floating.
        """
        if not isinstance(image, Tensor):
            raise TypeError(f"images must be a Tensor, got {kind_of(image)}")
        check_shape(image, "images", ("B", "C", "H", "W"))
        if not image.is_floating_point():
            raise ValueError(f"images must be floating, got {image.dtype}")
        if image.dtype in HALF:  # whose pixels have no place between them
            return cast(Tensor, in_float32(self.elements, [image]))
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
        # Half a pixel is the least deviation that an image resolves, 0.25 its square; added where
        # the ellipse is smaller than that, it keeps lines and points invertible.
        least = 0.25 * torch.eye(2, dtype=image.dtype, device=image.device)
        thin = (torch.linalg.det(covariance) < 0.25**2)[:, None, None]
        covariance = torch.where(thin, covariance + least, covariance)
        # An empty image has no frame: a quarter of its side, which is sqrt(0.25) times the half.
        default = least * (min(mass.shape[1:]) / 2) ** 2
        covariance = torch.where(empty[:, None, None], default, covariance)
        return self.group.element(spd_sqrt(covariance), center)

    @computes_in_float32
    def forward(self, image: Tensor) -> Tensor:
        """Show each image in its frame.

        Parameters
        ----------
        image : Tensor, (B, C, H, W), floating
            Brightness, zero in the background.

        Returns
        -------
        Tensor, (B, C, size, size), dtype of ``image``
            Zero where the frame leaves the image.
        """
        if isinstance(image, Tensor) and image.dtype in HALF:
            return cast(Tensor, in_float32(self.forward, [image]))
        elements = self.elements(image)
        image = gaussian_blur(image, self.blur)
        axis = _centered(self.size, image) * (2 * self.extent / self.size)
        points = torch.cartesian_prod(axis, axis)
        positions = points @ elements[:, :2, :2].mT + elements[:, None, :2, 2]
        seen = interpolate(image, positions).unflatten(2, (self.size, self.size))
        if not self.normalize:
            return seen
        # Brightness is a convention of the camera; an empty frame stays as it is.
        power = seen.square().mean((1, 2, 3), keepdim=True)
        return seen * torch.where(power > 0, power, torch.ones_like(power)).rsqrt()


def gaussian_blur(image: Tensor, width: float) -> Tensor:
    """Smooth images with a Gaussian of four deviations' reach; zero outside.

    Parameters
    ----------
    image : Tensor, (B, C, H, W), floating
        Images.
    width : float
        Standard deviation in pixels; 0 does nothing.

    Returns
    -------
    Tensor, (B, C, H, W), dtype of ``image``
        Smoothed images.
    """
    if width == 0:
        return image
    reach = int(4 * width) + 1  # beyond four deviations lie 6e-5 of the mass
    offsets = torch.arange(-reach, reach + 1, dtype=image.dtype, device=image.device)
    weights = torch.exp(-0.5 * (offsets / width).square())
    weights = weights / weights.sum()
    channels = image.shape[1]
    column = weights.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    image = F.conv2d(image, column, padding=(reach, 0), groups=channels)
    return F.conv2d(image, column.mT, padding=(0, reach), groups=channels)


def interpolate(image: Tensor, positions: Tensor) -> Tensor:
    """Read images between pixels, bilinearly; zero outside.

    Parameters
    ----------
    image : Tensor, (B, C, H, W), floating
        Images.
    positions : Tensor, (B, points, 2), dtype of ``image``
        ``(row, column)`` in pixels from the middle of the image.

    Returns
    -------
    Tensor, (B, C, points), dtype of ``image``
        What is there.

    Examples
    --------
    >>> interpolate(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([[[0.0, 0.0], [0.0, 0.5]]]))
    tensor([[[2., 3.]]])
    """
    if not torch.compiler.is_compiling() and (transforms_active() or forward_mode_active()):
        return _interpolate_by_corners(image, positions)
    half = positions.new_tensor(image.shape[2:]) / 2
    # grid_sample wants (column, row), edges of the image at -1 and 1.
    grid = (positions / half).flip(-1)[:, None]
    return F.grid_sample(image, grid, mode="bilinear", align_corners=False)[:, :, 0]


def _interpolate_by_corners(image: Tensor, positions: Tensor) -> Tensor:
    """The same in parts that have forward mode, which PyTorch's own has not."""
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
        # The nearer along both axes, the more.
        down, right = (s if step else 1 - s for s, step in zip(share, corner, strict=True))
        seen = seen + image.flatten(2).gather(2, flat) * (down * right * there)[:, None]
    return seen


def _centered(size: int, like: Tensor) -> Tensor:
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2
