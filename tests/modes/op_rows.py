"""Rows of all compiled ops, from the op table."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from tests.modes.row import Row
from tests.ops.op import Op
from tests.ops.op_table import OF_PYTORCH
from tests.ops.problems import SMALL


def op_rows() -> list[Row]:
    return [_row(op) for op in OF_PYTORCH]


def _row(op: Op) -> Row:
    rest = [x.double() if x.is_floating_point() else x for x in op.rest(SMALL.graph())]
    inputs = partial(_features, op)
    return Row(f"ops.{op}", nn.Identity, inputs, partial(_call, op, rest), op.name, rows=False)


def _features(op: Op) -> tuple[Tensor, ...]:
    return tuple(op.features(SMALL, torch.float64))


def _call(op: Op, rest: list[Tensor], _: nn.Module, *features: Tensor) -> object:
    """Fixed tables have the dtype in which features are computed, as those of layers do."""
    dtype, device = features[0].dtype, features[0].device
    return op.call(*features, *(x.to(device) for x in op.tables(rest, dtype)))
