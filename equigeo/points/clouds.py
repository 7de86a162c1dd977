"""Validation, gathering and padding of point clouds."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_indices, as_tensor, is_integer
from equigeo._core.tensors import check_in_program, values_readable
from equigeo.graphs.edge_index import cloud_offsets

_warned: set[str] = set()


def given_clouds(
    points: TensorLike,  # (B, P, C), or (..., P, C) if not batched
    name: str = "points",  # of the argument
    *,
    dim: int | None = None,  # number of coordinates, if known
    batched: bool = True,  # exactly one batch axis
) -> Tensor:
    """Validate floating clouds."""
    x = as_tensor(points, name)
    shape = tuple(x.shape)
    fits = x.ndim == 3 if batched else x.ndim >= 2
    if not fits or (dim is not None and shape[-1] != dim):
        wanted = f"({'B' if batched else '...'}, P, {'C' if dim is None else dim})"
        raise ValueError(f"{name} must be {wanted}, got {shape}{hint(shape, name, dim, batched)}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating, got {x.dtype}: use {name}.float()")
    return x


def hint(
    shape: tuple[int, ...],
    name: str,  # of the argument
    dim: int | None,  # number of coordinates
    batched: bool = True,  # one batch axis is expected
) -> str:
    """Return the remedy for a wrong shape as the end of a message, or an empty string."""
    if dim is not None and len(shape) >= 2 and shape[-2] == dim != shape[-1]:
        return f": exchange its last axes, {name}.mT"
    if batched and len(shape) == 2:
        side = "put clouds of a batch side by side, equigeo.points.pad_clouds"
        return f": {side}, or give {name}[None]"
    return ""


def check_finite(
    x: Tensor,  # (..., points, C)
    name: str,  # of the argument
    mask: Tensor | None = None,  # (..., points) existing points; others may hold anything
) -> None:
    """Raise for coordinates that are not finite, if values can be read."""
    if not values_readable(x):
        return
    finite = x.isfinite().all(-1)
    if not bool((finite if mask is None else finite | ~mask).all()):
        raise ValueError(f"{name} must be finite")


def scale_of(
    *clouds: Tensor,  # (..., points, C); the mask belongs to the first
    mask: Tensor | None = None,  # (..., points)
) -> Tensor:
    """Return a power of two near the largest coordinate, (..., 1, 1), to keep squares in range."""
    first, *others = clouds
    first = first if mask is None else first.masked_fill(~mask[..., None], 0)
    largest = first.new_zeros(())
    for x in (first, *others):
        if 0 not in x.shape[-2:]:  # numel() would fix the sizes of exported programs
            largest = torch.maximum(largest, x.abs().amax((-2, -1), keepdim=True))
    power = torch.frexp(largest).exponent
    return torch.where(largest > 0, torch.ldexp(torch.ones_like(largest), power), 1)


def given_mask(
    mask: TensorLike | None,
    shape: tuple[int, ...],  # of the points without coordinates
) -> Tensor | None:
    """Validate a bool mask of points."""
    if mask is None:
        return None
    found = as_tensor(mask, "mask")
    if tuple(found.shape) != tuple(shape) or found.dtype != torch.bool:
        numbers = found.dtype == torch.int64 and found.ndim == 1
        end = ": a batch vector is none, see pad_clouds" if numbers else ""
        raise ValueError(
            f"mask must be bool {tuple(shape)}, got {found.dtype} {tuple(found.shape)}{end}"
        )
    return found


def check_some_points(mask: Tensor | None) -> None:
    """Raise for masks (..., points) without a point, if values can be read."""
    if mask is not None and values_readable(mask) and not bool(mask.any(-1).all()):
        raise ValueError("every cloud must have a point, got one whose mask has none")


def doubt_integers(
    x: Tensor,
    name: str,  # of the argument
) -> None:
    """Warn about integer coordinates once per process, and never during compilation."""
    if is_integer(x) and "integers" not in _warned and not torch.compiler.is_compiling():
        _warned.add("integers")
        text = (
            f"{name} of {x.dtype} are taken as torch.float64 and have no gradient; pass "
            f"{name}.double() if integers are meant"
        )
        warnings.warn(text, UserWarning, stacklevel=3)


def gather_rows(rows: TensorLike, indices: TensorLike) -> Tensor:
    """Collect rows (B, P, *F) of each cloud by int64 indices (B, *I), to (B, *I, *F).

    Invalid indices raise `RuntimeError` if values can be read.

    Examples
    --------
    >>> gather_rows(torch.tensor([[[1], [2], [3]]]), torch.tensor([[2, 0]])).tolist()
    [[[3], [1]]]
    """
    table, index = as_tensor(rows, "rows"), as_indices(indices, "indices")
    if table.ndim < 2 or index.ndim < 1 or index.shape[0] != table.shape[0]:
        raise ValueError(
            "rows must be (B, P, ...) and indices (B, ...), "
            f"got {tuple(table.shape)} and {tuple(index.shape)}"
        )
    batch, points = table.shape[:2]
    # Beyond its end begins the next cloud.
    if index.numel() and values_readable(index):
        inside = (index.amin() >= 0) & (index.amax() < points)
        check_in_program(
            inside, f"indices must be from 0 to {points - 1}, the points of each cloud"
        )
    shift = points * torch.arange(batch, device=index.device)
    flat = (index + shift.view(-1, *[1] * (index.ndim - 1))).flatten()
    # One index_select over all clouds: its backward is an index_add, with no index per channel.
    return table.flatten(0, 1).index_select(0, flat).view(*index.shape, *table.shape[2:])


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
