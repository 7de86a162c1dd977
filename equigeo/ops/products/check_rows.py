"""Checks of the operands of products of rows."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.path_table import PathTable
from equigeo.ops.runtime.checks import check_dtype, check_features, check_row

LARGEST_DEGREE = 6
"""Of segments whose components kernels keep in registers: those of the first input of channelwise
products, and those of the first input and the output of fully connected products."""


def check_rows(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: PathTable,
    *,
    rows: int | None = None,  # rows of y and weight, by default those of x
) -> dict[str, Tensor]:
    """Validate dtypes and shapes of operands against a table and return the operands by name."""
    operands = {"x": x, "y": y}
    dims = {"x": table.dim_x, "y": table.dim_y, "weight": table.dim_weight}
    if weight is not None:
        operands["weight"] = weight
    if (weight is None) != (table.dim_weight == 0):
        given = "None" if weight is None else tuple(weight.shape)
        raise ValueError(f"weight must have {table.dim_weight} numbers a row, got {given}")
    for name, tensor in operands.items():
        check_features(name, tensor, ("rows", "components"))
        check_dtype(name, tensor, "x", x)
        if tensor.shape[1] != dims[name]:
            raise ValueError(
                f"{name} must have {dims[name]} components, got shape {tuple(tensor.shape)}"
            )
        expected = x.shape[0] if rows is None else rows
        if name != "x" and tensor.shape[0] != expected:
            raise ValueError(f"{name} must have {expected} rows, got {tensor.shape[0]}")
    return operands


def fake_product(x: Tensor, dim_out: int) -> Tensor:
    """Return an empty result of a product of rows."""
    return x.new_empty(x.shape[0], check_row(dim_out))
