"""Standardisation of feature channels by the statistics of the training meshes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equigeo.graphs.inputs import check_shape


class Standardize(nn.Module):
    """Subtract a mean and divide by a deviation, both fitted once and stored as buffers."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("deviation", torch.ones(channels))

    @property
    def is_fitted(self) -> bool:
        """Whether mean or deviation differ from their initial values."""
        return bool((self.mean != 0).any() or (self.deviation != 1).any())

    def fit(
        self,
        features: Sequence[Tensor],  # each (nodes, channels)
    ) -> None:
        """Fit mean and sample deviation over all rows; warn about constant channels."""
        rows = torch.cat([x.detach() for x in features]).double() if features else None
        if rows is None or not len(rows) or rows.shape[1] != len(self.mean):
            shape = None if rows is None else tuple(rows.shape)
            raise ValueError(f"features must be (nodes, {len(self.mean)}), got {shape}")
        deviation = rows.std(dim=0) if len(rows) > 1 else torch.ones_like(self.mean).double()
        # PD-MeshNet refuses a deviation below 10 machine epsilons; here of the values themselves,
        # because that is what rounding leaves of a constant channel.
        largest = rows.abs().amax(dim=0)
        constant = deviation <= 10 * torch.finfo(self.mean.dtype).eps * largest
        if bool(constant.any()):
            channels = torch.nonzero(constant).flatten().tolist()
            warnings.warn(f"feature channels {channels} are constant", stacklevel=2)
        self.mean.copy_(rows.mean(dim=0))
        self.deviation.copy_(torch.where(constant, 1.0, deviation))

    def forward(
        self,
        x: Tensor,  # (nodes, channels)
    ) -> Tensor:
        """Standardise features in the dtype of the buffers."""
        check_shape(x, "x", ("nodes", len(self.mean)))
        return (x.to(self.mean.dtype) - self.mean) / self.deviation
