"""Frames of point clouds, and a classifier that is invariant by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import TensorLike, as_tensor, check_like
from equigeo._core.config import Config, check_config, override, within
from equigeo._core.tensors import computes_in_float32, plain_tensors
from equigeo.affine.kernels import AffineKernel, KeepsKernels, KernelSpec
from equigeo.affine.point_conv import (
    PointGroupConv,
    PointLiftConv,
    PointNeighborhood,
    farthest_points,
)
from equigeo.affine.samples import GroupPool, SampleBatchNorm, relative_coordinates
from equigeo.groups import (
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    LinearGroup,
    Similarity,
    finite_rotations,
    spd_sqrt,
)
from equigeo.nn.state import SavedConfig
from equigeo.points import gather_rows
from equigeo.points.clouds import check_finite, hint
from equigeo.reps import Points, Trivial

_GROUPS: dict[str, type[LinearGroup]] = {"SO": SO, "Similarity": Similarity, "GLPlus": GLPlus}


@dataclass(frozen=True)
class AffinePointNetConfig(Config):
    """Configuration of :class:`AffinePointNet`.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    group : {"SO", "Similarity", "GLPlus"}
        Group of the frame: rotations, rotations and scales, or all linear maps of positive
        determinant; translations always.
    rotations : {"dihedral", "octahedral"}
        Samples around the axes of the frame, 4 or 24.
    centers, neighbors : tuple of int
        Numbers of points at which the two convolutions are evaluated, and of points that each
        reads.
    radii : tuple of float
        Radii of the convolutions. In the frame the root mean square of the coordinates is 1; for
        ``SO`` the unit is that of the cloud.
    channels : tuple of int
        Channels after the lifting, after the group convolution, and of the descriptor of a cloud.
    rank, gaussians : int
        Rank of the kernels, and Gaussians along an axis.
    dropout : float
        Dropout probability before the classifier.

    Examples
    --------
    >>> config = AffinePointNetConfig(10, group="GLPlus")
    >>> AffinePointNetConfig.from_dict(config.to_dict()) == config
    True
    """

    title: ClassVar[str] = "the configuration of an AffinePointNet"

    num_classes: int = within(1, 10**6)
    group: Literal["SO", "Similarity", "GLPlus"] = "Similarity"
    rotations: Literal["dihedral", "octahedral"] = "dihedral"
    centers: tuple[int, int] = within(1, 2**20, default=(128, 32))
    neighbors: tuple[int, int] = within(1, 65_536, default=(16, 16))
    radii: tuple[float, float] = within(0.0, 1e6, above=True, default=(0.5, 1.0))
    channels: tuple[int, int, int] = within(1, 65_536, default=(48, 96, 192))
    rank: int = within(1, 65_536, default=16)
    gaussians: int = within(1, 256, default=3)
    dropout: float = within(0.0, 1.0, default=0.3)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, length in {"centers": 2, "neighbors": 2, "radii": 2, "channels": 3}.items():
            if len(value := getattr(self, name)) != length:
                raise ValueError(f"{name} must be {length} numbers, got {value}")
        if self.centers[1] > self.centers[0]:
            raise ValueError(f"centers must not become more, got {self.centers}")

    def make_group(self) -> LinearGroup:
        """Return the group of the frame."""
        return _GROUPS[self.group](3)


class AffinePointNet(SavedConfig):
    """Classify point clouds by a frame, a lifting, a group convolution and a maximum.

    A cloud is transformed to its :class:`PointFrame`, up to the signs of the axes, which a closed
    set of rotations around the axes covers: the samples. A lifting describes the surroundings of
    some hundred points; a group convolution gathers these around fewer points; a maximum over the
    points is mixed over the samples.

    Logits are invariant to translations, permutations of points and elements of the group of
    positive determinant, to rounding, except for ties among distances and the limits of
    :class:`PointFrame`. Mirror images may have other logits, so that similarities are declared as
    rotations.

    Parameters
    ----------
    config : AffinePointNetConfig
        Options; see :meth:`preset`.

    Examples
    --------
    >>> model = AffinePointNet.preset("default", num_classes=10).eval()
    >>> model(torch.rand(2, 300, 3)).shape
    torch.Size([2, 10])
    """

    config_type = AffinePointNetConfig
    # The number of points that are read may differ from training.
    _unsaved_fields = SavedConfig._unsaved_fields | {"centers", "neighbors"}

    def __init__(self, config: AffinePointNetConfig) -> None:
        super().__init__()
        check_config(config, AffinePointNetConfig)
        self.config = config
        lifted, gathered, described = config.channels
        self.frame = PointFrame(config.make_group())
        spec = KernelSpec(network="rbf", centers=config.gaussians)
        near = [
            PointNeighborhood(radius, k)
            for radius, k in zip(config.radii, config.neighbors, strict=True)
        ]
        self.lift = PointLiftConv(SO(3), 1, lifted, spec, neighborhood=near[0], rank=config.rank)
        # Features of positions around the centroid. Checkpoints contain the names of attributes.
        self.places = nn.ModuleList([_PositionFeatures(lifted), _PositionFeatures(gathered)])
        self.lifted = nn.Sequential(_Activation(lifted), _Pointwise(lifted, lifted))
        self.gather = PointGroupConv(
            SO(3), lifted, gathered, spec, neighborhood=near[1], rank=config.rank
        )
        self.gathered = nn.Sequential(_Activation(gathered), _Pointwise(gathered, described))
        self.mixing = _SampleMixing(described, described)
        self.pool = GroupPool("max")
        self.head = nn.Sequential(
            nn.Dropout(config.dropout), nn.Linear(described, config.num_classes)
        )
        with plain_tensors():
            self._fixed = finite_rotations(config.rotations)

    @classmethod
    def preset(cls, name: str, num_classes: int = 10, **changes: Any) -> AffinePointNet:
        """Build the preset "default" (rotations and scales), "SO", "Similarity" or "GLPlus".

        ``changes`` are fields of :class:`AffinePointNetConfig` that differ from the preset.
        """
        presets: dict[str, dict[str, Any]] = {
            "default": {},
            "Similarity": {},
            "GLPlus": {"group": "GLPlus"},
            "SO": {"group": "SO", "radii": (0.2, 0.4)},
        }
        if name not in presets:
            raise ValueError(
                f"preset must be 'default', 'SO', 'Similarity' or 'GLPlus', got {name!r}"
            )
        return cls(override(AffinePointNetConfig(num_classes, **presets[name]), changes))

    @property
    def rep_in(self) -> Points:
        """Representation of the positions of points."""
        return Points(self._symmetry)

    @property
    def rep_out(self) -> Trivial:
        """Invariant logits."""
        return Trivial(self._symmetry, self.config.num_classes)

    @property
    def _symmetry(self) -> Affine:
        """Return the motions that logits are invariant to; for similarities without scale."""
        group = self.config.make_group()
        return Affine(SO(3) if isinstance(group, Similarity) else group)

    def forward(self, points: TensorLike) -> Tensor:
        """Classify clouds ``(B, P, 3)`` of P points each, to logits ``(B, num_classes)``.

        Arrays take the dtype of the weights; there is no mask.
        """
        weight = next(self.parameters())
        # In its frame a moved cloud differs only by signs of axes, which permute the samples.
        y = self.frame(as_tensor(points, "points", like=weight))
        check_like(y, "points", weight)
        samples = self._fixed.to(device=y.device)
        # Farthest points are selected in the frame, since shears change them. The first points of a
        # selection are the selection of fewer points.
        many, few = (min(count, y.shape[1]) for count in self.config.centers)
        centers = gather_rows(y, farthest_points(y, many))
        ones = y.new_ones(y.shape[0], 1, y.shape[1])
        x, _ = self.lift(ones, y, samples, centers)
        x = self.lifted(x + self.places[0](centers, samples))
        x, _ = self.gather(x, centers, samples, centers=centers[:, :few])
        x = self.gathered(x + self.places[1](centers[:, :few], samples))
        x = x.amax(3)
        x = self.mixing(x, samples)
        return self.head(self.pool(x, samples))


class _Activation(nn.Module):
    """Batch norm followed by GELU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = SampleBatchNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.norm(x))


class _Pointwise(nn.Module):
    """A convolution with one matrix at the center, on features (B, C, N, P)."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, width, bias=False)
        self.activation = _Activation(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.linear(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1))


class _PositionFeatures(nn.Module):
    """Features of point positions relative to the centroid, in the frame of each sample."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, channels), nn.GELU(), nn.Linear(channels, channels)
        )

    def forward(self, y: Tensor, samples: GroupSamples) -> Tensor:
        seen = torch.einsum("nij,bpj->bpni", samples.h_inv.to(y), y)
        return self.layers(seen).permute(0, 3, 2, 1)


class _SampleMixing(KeepsKernels):
    """A residual convolution over the samples alone: (B, C, N) to (B, C, N)."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        spec = KernelSpec(network="siren", hidden=16, continuous_rotation=True)
        self.kernel = AffineKernel(SO(3), channels * width, spec, spatial=False, fan_in=channels)
        self.activation = _Activation(width)

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        def evaluate() -> Tensor:
            kernel = self.kernel(s=relative_coordinates(samples, samples))
            return kernel.unflatten(-1, (-1, x.shape[1])) / len(samples)  # a mean over samples

        kernel = self._kept(evaluate, self.kernel, (samples,), None)
        return x + self.activation(torch.einsum("abdc,ncb->nda", kernel.to(x.dtype), x))


# Covariances with mean eigenvalue 1 and a smaller determinant are treated as flat: thickness of
# about 1e-6 of the size, ten times the thickness of a plane that is rounded to float32.
_THIN = 1e-12
_PADDING = 1e-6  # variance added to flat clouds, in mean variances: a thousandth of their size


class PointFrame(nn.Module):
    """Transform a cloud to its own frame, :math:`y_j = F^{-1}(x_j - c)`.

    The cloud :math:`A x + b` has the centroid :math:`A c + b` and the linear part :math:`A F D`,
    where D is diagonal with entries 1 and -1 and determinant 1, since axes have no signs. The
    samples :math:`F o` with the four elements o of ``finite_rotations("dihedral")`` are the same
    set for all signs; with the 24 of ``"octahedral"`` they do not depend on the order of the axes
    either.

    * SO(3): columns of F are the principal axes, by decreasing variance.
    * Similarity(3): the same, times the root mean square of the coordinates.
    * GLPlus(3): :math:`F = S^{1/2} V`, S the covariance, V the axes of the fourth moments
      :math:`E[|z|^2 z z^T]` of the whitened points :math:`z = S^{-1/2}(x - c)`.

    The set of the four frames is exactly equivariant to translations and to elements of the group
    of positive determinant; mirror images are mirrored in their frames. Frames are discontinuous,
    and their gradients infinite, where two eigenvalues are equal: of the covariance for SO(3) and
    Similarity(3), of the fourth moments for GLPlus(3) (also Gaussian clouds). For GLPlus(3), flat
    clouds get a thickness of 1e-3 of their size and are equivariant to similarities only. The scale
    of coinciding points is 1. Reference: Cardoso, "Source separation using higher order moments",
    ICASSP 1989, for the fourth moments.

    Parameters
    ----------
    group : SO(3), Similarity(3) or GLPlus(3)
        Group that the frame follows.

    Examples
    --------
    >>> from equigeo.groups import Similarity
    >>> bar = torch.tensor([[[0.0, 0, 0], [0, 4, 0], [1, 2, 0], [-1, 2, 0]]])
    >>> PointFrame(Similarity(3))(bar)[0, :, 0].abs()  # along the longest axis
    tensor([2.1909, 2.1909, 0.0000, 0.0000])
    """

    def __init__(self, group: LinearGroup) -> None:
        super().__init__()
        if group not in (SO(3), Similarity(3), GLPlus(3)):
            raise ValueError(f"group must be SO(3), Similarity(3) or GLPlus(3), got {group}")
        self.group = Affine(group)

    def extra_repr(self) -> str:
        return f"{self.group.linear_group}"

    def elements(self, points: TensorLike) -> Tensor:
        """Return the frame ``(B, 4, 4)`` of each cloud ``(B, P, 3)``: axes and centroid as columns.

        Homogeneous matrices of positive determinant, computed in float64.
        """
        x = _given(points)
        linear, centroid = self._parts(x)
        return self.group.element(linear, centroid).to(x.dtype)

    @computes_in_float32
    def forward(self, points: TensorLike) -> Tensor:
        """Transform each cloud ``(B, P, 3)`` to its frame."""
        x = _given(points)
        linear, centroid = self._parts(x)
        moved = (x.double() - centroid[:, None]).mT
        return torch.linalg.solve(linear, moved).mT.to(x.dtype)

    def _parts(self, points: Tensor) -> tuple[Tensor, Tensor]:
        x = points.double()
        centroid = x.mean(1)
        x = x - centroid[:, None]
        covariance = x.mT @ x / x.shape[1]
        variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        variance = torch.where(variance > 0, variance, torch.ones_like(variance))
        group = self.group.linear_group
        if group == GLPlus(3):
            return _fourth_moment_axes(x, covariance, variance), centroid
        axes = _proper_axes(covariance)
        return (axes if group == SO(3) else axes * variance.sqrt()), centroid


def _given(points: TensorLike) -> Tensor:
    x = as_tensor(points, "points")
    shape = tuple(x.shape)
    if len(shape) != 3 or shape[1] == 0 or shape[2] != 3:
        raise ValueError(
            f"points must be (batch, points, 3), got {shape}{hint(shape, 'points', 3, False)}"
        )
    if not x.is_floating_point():
        raise ValueError(f"points must be floating, got {x.dtype}")
    check_finite(x, "points")
    return x


def _fourth_moment_axes(x: Tensor, covariance: Tensor, variance: Tensor) -> Tensor:
    identity = torch.eye(3, dtype=x.dtype, device=x.device)
    thin = torch.linalg.det(covariance / variance) < _THIN
    padded = covariance + _PADDING * variance * identity
    root = spd_sqrt(torch.where(thin[:, None, None], padded, covariance))
    # Whitened points have covariance 1: only higher moments determine their rotation.
    z = torch.linalg.solve(root, x.mT).mT
    weighted = z * z.square().sum(-1, keepdim=True)
    return root @ _proper_axes(weighted.mT @ z / x.shape[1])


def _proper_axes(symmetric: Tensor) -> Tensor:
    """Return eigenvectors (B, 3, 3) by descending eigenvalue, right-handed."""
    axes = torch.linalg.eigh(symmetric).eigenvectors.flip(-1)
    sign = torch.linalg.det(axes.detach()).sign()[:, None]
    return torch.cat([axes[..., :2], axes[..., 2:] * sign[..., None]], dim=-1)
