"""Base class of convolutions of point clouds, with low-rank kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.kernels.steering import field_representation
from equigeo.affine.points.point_neighborhood import PointNeighborhood, PointNeighbors
from equigeo.graphs.inputs import TensorLike, as_tensor, check_shape, kind_of
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.nn.state import SavedOptions
from equigeo.ops.runtime.storage import HALF
from equigeo.points.cloud_checks import given_mask, hint
from equigeo.reps import Representation, Trivial


@takes_integers
class PointConvolution(SavedOptions, ABC):
    """Base of convolutions with low-rank kernels, sums of coefficients a_m times matrices W_m."""

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, neighborhood: PointNeighborhood | None = None,
        rank: int = 16, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if min(in_channels, out_channels, rank) < 1:
            raise ValueError(
                f"channels and rank must be positive, got {in_channels}, {out_channels} and {rank}"
            )
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in = field_representation(rep_in, group)
        self.rep_out = Trivial(group, 1)
        self.spec, self.rank = spec or KernelSpec(network="rbf"), rank
        self.neighborhood = neighborhood or PointNeighborhood()
        terms = rank * in_channels * self.rep_in.dim
        self.weight = nn.Parameter(torch.empty(out_channels, terms))
        # A sum of this many products then has the variance of its terms.
        nn.init.normal_(self.weight, std=terms**-0.5)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"radius": self.neighborhood.radius}

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return (
            f"{self.group}, {self.in_channels}, {self.out_channels}, rank={self.rank}, "
            f"{self.neighborhood}"
        )

    @abstractmethod
    def evaluate_kernel(
        self, near: PointNeighbors, inputs: GroupSamples, outputs: GroupSamples
    ) -> Tensor:  # (B, N_out, Q, k, N or 1, rank)
        """Return the coefficients :math:`a_m` of the kernel, with all weights."""

    def convolve(
        self,
        rows: Tensor,  # (B, P, N or 1, in_channels * rep_in.dim)
        positions: Tensor,  # (B, P, n)
        inputs: GroupSamples,
        outputs: GroupSamples,
        centers: Tensor | None,  # (B, Q, n), by default the positions
        mask: Tensor | None,  # (B, P)
    ) -> Tensor:  # (B, out_channels, N_out, Q), channels innermost in memory
        """Sum neighbour features with kernel values, then apply the matrices."""
        if mask is not None:  # zero weights times nan would be nan
            rows = rows.masked_fill(~mask[:, :, None, None], 0)
        near = self.neighborhood.find(outputs, positions, centers, mask)
        values = self.evaluate_kernel(near, inputs, outputs).flatten(3, 4)
        seen = near.take(rows.to(values.dtype)).flatten(3, 4)
        # Contract with the kernel first: an edge then costs rank products, not out_channels.
        if seen.shape[1] == 1:  # all samples read the same neighbours
            contracted = torch.einsum("baqkm,bqkc->bqamc", values, seen[:, 0])
        else:
            contracted = torch.einsum("baqkm,baqkc->bqamc", values, seen)
        if not isinstance(self.rep_in, Trivial):
            contracted = self._seen(contracted, outputs)
        y = contracted.flatten(-2) @ self.weight.mT.to(contracted.dtype)
        # Under autocast the product is in half precision, which is kept.
        return (y.to(rows.dtype) if rows.dtype in HALF else y).permute(0, 3, 2, 1)

    def _seen(self, contracted: Tensor, samples: GroupSamples) -> Tensor:
        """Return fields (B, Q, N, rank, C dim) in the frame of each sample."""
        matrices = self.rep_in.matrix(samples.h_inv).to(contracted)
        split = contracted.unflatten(-1, (-1, self.rep_in.dim))
        return torch.einsum("ned,bqnmcd->bqnmce", matrices, split).flatten(-2)

    def check_clouds(
        self,
        x: Tensor,  # (B, C, P), or (B, C, N, P)
        positions: TensorLike,  # (B, P, n)
        samples: int | None,  # N, None for fields on space
        centers: TensorLike | None,  # (B, Q, n)
        mask: TensorLike | None,  # (B, P)
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Validate clouds and convert arrays to tensors; return positions, centers and mask."""
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        if not x.is_floating_point():
            raise TypeError(f"features must be floating, got {x.dtype}")
        n = self.group.n
        place = as_tensor(positions, "positions", like=x)
        shape = tuple(place.shape)
        if len(shape) != 3 or shape[2] != n or shape[1] == 0:
            end = hint(shape, "positions", n)
            raise ValueError(f"positions must be (batch, points, {n}), got {shape}{end}")
        channels = self.in_channels * self.rep_in.dim
        lead = (channels,) if samples is None else (channels, samples)
        if tuple(x.shape) != (shape[0], *lead, shape[1]):
            wanted = (shape[0], *lead, shape[1])
            raise ValueError(f"features must be {wanted}, got {tuple(x.shape)}")
        middle = None if centers is None else as_tensor(centers, "centers", like=x)
        if middle is not None:
            check_shape(middle, "centers", (shape[0], "centers", n))
        for name, given in (("positions", place), ("centers", middle)):
            if given is not None and not given.is_floating_point():
                raise TypeError(f"{name} must be floating, got {given.dtype}")
        return place, middle, given_mask(mask, shape[:2])
