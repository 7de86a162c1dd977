"""Checks of the operands of products of rows."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops._checks import check_device, check_features
from equigeo.ops.connection_table import ConnectionTable


def check_rows(x: Tensor, y: Tensor, weight: Tensor | None, table: ConnectionTable) -> None:
    """Refuse rows that do not fit a table.

    Parameters
    ----------
    x, y, weight : Tensor or None
        The operands of a product.
    table : ConnectionTable
        Its paths.

    Raises
    ------
    TypeError
        If a dtype is neither float32 nor float64, or not that of ``x``.
    ValueError
        If shapes or devices do not fit together.
    """
    if (weight is None) != (table.dim_weight == 0):
        given = "None" if weight is None else tuple(weight.shape)
        raise ValueError(f"weight must have {table.dim_weight} numbers a row, got {given}")
    operands = {"x": (x, table.dim_x), "y": (y, table.dim_y)}
    if weight is not None:
        operands["weight"] = (weight, table.dim_weight)
    for name, (tensor, dim) in operands.items():
        check_features(name, tensor, ("rows", "components"))
        if tensor.dtype != x.dtype:
            raise TypeError(f"{name} must have the dtype of x, {x.dtype}, got {tensor.dtype}")
        if tensor.shape[1] != dim:
            raise ValueError(f"{name} must have {dim} components, got shape {tuple(tensor.shape)}")
        if tensor.shape[0] != x.shape[0]:
            raise ValueError(f"{name} must have {x.shape[0]} rows, got {tensor.shape[0]}")
    tensors = {name: tensor for name, (tensor, _) in operands.items()}
    check_device(**tensors, paths=table.paths, entries=table.entries, values=table.values)
