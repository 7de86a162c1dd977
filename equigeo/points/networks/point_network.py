"""Base class of point networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.graphs.cloud_offsets import cloud_offsets
from equigeo.graphs.inputs import TensorLike, as_tensor, check_like
from equigeo.points.cloud_checks import check_some_points, given_mask, hint
from equigeo.points.ragged import pad_clouds


@takes_integers
class PointNetwork(nn.Module, ABC):
    """Classifier of point clouds with optional padding."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self,
        points: TensorLike,
        mask: TensorLike | None = None,
        *,
        batch: TensorLike | None = None,
        ptr: TensorLike | None = None,
    ) -> Tensor:
        """Compute logits, (..., num_classes), or (clouds, num_classes) with ``batch`` or ``ptr``.

        Parameters
        ----------
        points : Tensor or ndarray, (..., points, dim), or (rows, dim) with ``batch`` or ``ptr``
            Clouds in the dtype of the weights, to which arrays are cast.
        mask : Tensor, (..., points), bool, optional
            Existing points, at least one per cloud. Padding affects neither logits nor batch
            statistics, unless a cloud has fewer points than neighbors are read.
        batch, ptr : Tensor, int64, optional
            Cloud indices or offsets of concatenated clouds, as in `equigeo.points.pad_clouds`.
        """
        x = self._given_points(points)
        if batch is not None or ptr is not None:
            return self._classify_rows(x, mask, batch, ptr)
        there = given_mask(mask, x.shape[:-1])
        shape, x = x.shape, _one_batch(x, 2)
        if there is not None:
            check_some_points(there)
            there = _one_batch(there, 1)
            x = x.masked_fill(~there[..., None], 0)
        logits = self.classify(x, there)
        return logits.view(*shape[:-2], logits.shape[-1])

    def _given_points(self, points: TensorLike) -> Tensor:
        weight = next(self.parameters())
        x = as_tensor(points, "points", like=weight)
        shape = tuple(x.shape)
        if len(shape) < 2 or shape[-1] != self.dim or shape[-2] == 0:
            end = hint(shape, "points", self.dim, batched=False)
            raise ValueError(
                f"points must be (..., points, {self.dim}) with at least one point, "
                f"got {shape}{end}"
            )
        if not x.is_floating_point():
            raise ValueError(f"points must be floating, got {x.dtype}")
        check_like(x, "points", weight)
        return x

    def _classify_rows(
        self,
        x: Tensor,
        mask: TensorLike | None,
        batch: TensorLike | None,
        ptr: TensorLike | None,
    ) -> Tensor:
        """Classify clouds given as concatenated rows."""
        if mask is not None or x.ndim != 2:
            raise ValueError(
                f"points of a batch must be (rows, {self.dim}) without mask, got {tuple(x.shape)}"
            )
        offsets = cloud_offsets(len(x), batch, ptr)
        if offsets is None or bool((offsets.diff() < 1).any()):
            raise ValueError("every cloud of a batch must have a point, got one without")
        return self.classify(*pad_clouds(x, ptr=offsets))

    @abstractmethod
    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Classify a zero-padded batch, (B, points, dim), to (B, num_classes)."""


def _one_batch(x: Tensor, axes: int) -> Tensor:
    """Merge leading axes into one, also for empty batches, where -1 is ambiguous."""
    return x[None] if x.ndim == axes else x.flatten(0, -axes - 1)


def check_positive(dropout: float, **settings: int | Sequence[int]) -> None:
    """Raise for settings that are not positive or a dropout outside [0, 1)."""
    for name, value in settings.items():
        numbers = (value,) if isinstance(value, int) else tuple(value)
        if min(numbers, default=1 if name == "hidden" else 0) < 1:
            shown = value if isinstance(value, int) else numbers
            raise ValueError(f"{name} must be positive, got {shown}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
