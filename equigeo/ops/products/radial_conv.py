"""A channelwise convolution with weights that are linear in a few numbers per edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from equigeo._core.checks import check_device, check_operands
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.channelwise_conv import (
    channelwise_conv_backward,
    channelwise_conv_reference,
    check_graph,
    conv_blocks,
    fake_conv,
)
from equigeo.ops.products.multilinear import OPERANDS
from equigeo.ops.runtime.batching import Batched, in_front, share_the_rest
from equigeo.ops.runtime.declare import declare, declared
from equigeo.ops.runtime.forward_rules import linear_in
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "radial_conv(Tensor x, Tensor y, Tensor hidden, Tensor radial, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, int dim_out, bool ir_mul) -> Tensor"
)

FEATURES = ("x", "y", "hidden", "radial")


@computes_in_float32
def radial_conv(
    x: Tensor,
    y: Tensor,
    hidden: Tensor,
    radial: Tensor,
    graph: tuple[Tensor, ...],
    table: PathTable,
) -> Tensor:
    """Convolve with the weights ``hidden @ radial``, which are never stored.

    Equals :func:`equigeo.ops.channelwise_conv` with that product. The gradient computes the
    weights again and stores them then. Other arguments: as there; all paths have weights.

    Parameters
    ----------
    hidden : Tensor, (edges, numbers)
        The numbers of each edge that ``radial`` maps to weights, invariant for equivariance.
    radial : Tensor, (numbers, table.dim_weight)
        The linear map, for example the last layer of a radial network.

    Examples
    --------
    >>> import torch
    >>> from equigeo.ops import Path, Segment
    >>> scalar = Segment.block(0, mul=1, d=1)
    >>> scale = Path(scalar, scalar, scalar, weight=0, coefficients=torch.ones(1, 1, 1))
    >>> table = PathTable.from_paths([scale], dims=(1, 1, 1, 1), by_output=True)
    >>> edge = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0])
    >>> back = torch.tensor([0]), torch.tensor([0]), torch.tensor([0, 1])
    >>> x, hidden = torch.ones(1, 1), torch.tensor([[2.0, 3.0]])
    >>> radial_conv(x, x, hidden, torch.tensor([[1.0], [10.0]]), (*edge, *back), table)
    tensor([[32.]])
    """
    named = check_graph(x, graph)
    features = {"x": x, "y": y, "hidden": hidden, "radial": radial}
    edges = named["source"].shape[0]
    wanted = {
        "x": (x.shape[0] if x.ndim else 0, table.dim_x),
        "y": (edges, table.dim_y),
        "hidden": (edges, hidden.shape[-1] if hidden.ndim else 0),
        "radial": (hidden.shape[-1] if hidden.ndim else 0, table.dim_weight),
    }
    check_operands(features, wanted)
    check_device(**features, **named, paths=table.paths)
    tables = (table.paths, table.entries, table.values.to(computed_in(x.dtype)))
    return radial_conv_op(x, y, hidden, radial, *graph, *tables, table.dim_out, table.ir_mul)


def radial_conv_reference(
    x: Tensor, y: Tensor, hidden: Tensor, radial: Tensor, **rest: Any
) -> Tensor:
    """Reference implementation of :func:`radial_conv`, differentiable by PyTorch alone."""
    return channelwise_conv_reference(x, y, hidden @ radial, **rest)


def _backward(
    grad: Tensor,
    *,
    x: Tensor,
    y: Tensor,
    hidden: Tensor,
    radial: Tensor,
    dim_out: int,
    **rest: Any,
) -> Gradients:
    to_x, to_y, to_weight = channelwise_conv_backward(grad, x, y, hidden @ radial, *rest.values())
    # Weights are a matrix product, and so are both of its gradients.
    to_hidden, to_radial = to_weight @ radial.mT, hidden.mT @ to_weight
    return {"x": to_x, "y": to_y, "hidden": to_hidden, "radial": to_radial}


def _batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
    rest, dims = share_the_rest(arguments, dims, allowed=FEATURES)
    hidden, radial = (in_front(rest.pop(name), dims[name], size) for name in ("hidden", "radial"))
    # Weights of each problem of the batch, which the convolution then takes.
    x, y, *graph_and_table = rest.values()
    given = {"x": x, "y": y, "weight": hidden @ radial}
    given |= dict(zip([*rest][2:], graph_and_table, strict=True))
    axes = {name: dims.get(name) for name in given} | {"weight": 0}
    return conv_blocks(OPERANDS)(declared("channelwise_conv"), size, given, axes)


radial_conv_op = declare(
    SCHEMA,
    reference=radial_conv_reference,
    fake=fake_conv,
    backward=_backward,
    forward=linear_in("radial_conv", FEATURES),
    batch=_batch,
)
