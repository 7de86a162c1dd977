"""Sum rows of a table over the segments of a list of row numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_edge_lists, check_features
from equigeo._core.tensors import computes_in_float32, recording
from equigeo.ops.runtime.batching import channels
from equigeo.ops.runtime.declare import declare
from equigeo.ops.runtime.forward_rules import linear_in
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "gather_sum(Tensor x, Tensor index, Tensor ptr, Tensor back_index, Tensor back_ptr) -> Tensor"
)


@computes_in_float32
def gather_sum(
    x: Tensor, index: Tensor, ptr: Tensor, back_index: Tensor, back_ptr: Tensor
) -> Tensor:
    r"""Sum gathered rows of ``x`` into segments.

    .. math:: y_t = \sum_{k = \mathrm{ptr}_t}^{\mathrm{ptr}_{t+1} - 1} x_{\mathrm{index}_k}

    The product with a sparse matrix of ones. Its gradient is the product with the transpose, which
    ``back_index`` and ``back_ptr`` hold, so it needs no atomic additions and gradients of any
    order are this same op. Returns a tensor (segments, channels).

    Parameters
    ----------
    x : Tensor, (sources, channels)
        Rows to gather.
    index : Tensor, (edges,), int64
        Rows of ``x``, segment by segment.
    ptr : Tensor, (segments + 1,), int64
        Offsets of the segments in ``index``, ascending from 0 to ``edges``.
    back_index : Tensor, (edges,), int64
        Segments in which each row of ``x`` is summed, row by row.
    back_ptr : Tensor, (sources + 1,), int64
        Offsets of the rows in ``back_index``.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [10.0]])
    >>> index, ptr = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 2, 3])
    >>> back_index, back_ptr = torch.tensor([0, 0, 2]), torch.tensor([0, 1, 3])
    >>> gather_sum(x, index, ptr, back_index, back_ptr).flatten().tolist()
    [11.0, 0.0, 10.0]
    """
    check_features("x", x, ("sources", "channels"))
    lists = {"index": index, "ptr": ptr, "back_index": back_index, "back_ptr": back_ptr}
    check_edge_lists("x", x, lists)
    check_device(x=x, **lists)
    return gather_sum_op(x, index, ptr, back_index, back_ptr)


def gather_sum_reference(
    x: Tensor, index: Tensor, ptr: Tensor, back_index: Tensor, back_ptr: Tensor
) -> Tensor:
    """Reference implementation of :func:`gather_sum`, differentiable by PyTorch alone."""
    segments = ptr.shape[0] - 1
    segment = segment_of_rows(ptr[1:], index.shape[0])
    return x.new_zeros(segments, x.shape[1]).index_add(0, segment, x[index])


def segment_of_rows(
    ends: Tensor,  # (segments,), int64, ascending: end of each segment
    rows: int,  # number of rows
) -> Tensor:  # (rows,), int64
    """Return the segment of each row, or the number of segments for rows beyond the last end."""
    if recording():  # ONNX has no search: the number of ends up to each row
        counts = ends.new_zeros(rows + 1).index_add(0, ends, torch.ones_like(ends))
        return counts[:-1].cumsum(0)
    # Never writes out of bounds; repeat_interleave(output_size=rows) trusts the offsets.
    places = torch.arange(rows, device=ends.device)
    return torch.searchsorted(ends.contiguous(), places, right=True)


def _fake(x: Tensor, ptr: Tensor) -> Tensor:
    return x.new_empty(ptr.shape[0] - 1, x.shape[1])


def _backward(
    grad: Tensor, *, index: Tensor, ptr: Tensor, back_index: Tensor, back_ptr: Tensor
) -> Gradients:
    # The transpose of the matrix of ones, whose own transpose is the matrix again.
    return {"x": gather_sum_op(grad, back_index, back_ptr, index, ptr)}


gather_sum_op = declare(
    SCHEMA,
    reference=gather_sum_reference,
    fake=_fake,
    backward=_backward,
    forward=linear_in("gather_sum", ["x"]),
    batch=channels(["x"]),
)
