"""Conversion of concatenated clouds to the padded form."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.cloud_offsets import cloud_offsets
from equigeo.graphs.inputs import TensorLike, as_tensor


def pad_clouds(
    points: TensorLike, *, batch: TensorLike | None = None, ptr: TensorLike | None = None
) -> tuple[Tensor, Tensor]:
    """Convert concatenated clouds of several sizes to padded clouds with a mask.

    Parameters
    ----------
    points : Tensor or ndarray, (rows, *F)
        One row per point.
    batch : Tensor, (rows,), int64, optional
        Index of the cloud of each row, ascending, as in PyTorch Geometric.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of the clouds, instead of ``batch``.

    Returns
    -------
    padded : Tensor, (clouds, largest, *F)
        Zero at padding; ``padded[mask]`` equals ``points``.
    mask : Tensor, (clouds, largest), bool
        Existing points.

    Examples
    --------
    >>> rows = torch.tensor([[1.0], [2.0], [3.0]])
    >>> padded, mask = pad_clouds(rows, batch=torch.tensor([0, 1, 1]))
    >>> padded[..., 0].tolist(), mask.tolist()
    ([[1.0, 0.0], [2.0, 3.0]], [[True, False], [True, True]])
    """
    rows = as_tensor(points, "points")
    if rows.ndim < 1:
        raise ValueError("points must be (rows, ...), got a single number")
    offsets = cloud_offsets(len(rows), batch, ptr)
    if offsets is None:
        raise ValueError("batch or ptr must be given, got neither")
    counts = offsets.diff()
    largest = int(counts.max()) if len(counts) else 0
    mask = torch.arange(largest, device=rows.device) < counts[:, None].to(rows.device)
    padded = rows.new_zeros(len(counts), largest, *rows.shape[1:])
    return padded.index_put((mask,), rows), mask
