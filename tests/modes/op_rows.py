"""Rows of all ops, from the op table."""

from functools import partial

import torch
from torch import Tensor, nn

from tests.modes.row import Row
from tests.ops.op import Op
from tests.ops.op_table import OF_PYTORCH
from tests.ops.problems import SMALL
from tests.tier import FULL


def op_rows() -> list[Row]:
    """Return a row per op and, in the full tier, per set of missing operands."""
    ops = {(op.name, op.missing if FULL else ()): op for op in reversed(OF_PYTORCH)}
    return [_row(op) for op in reversed(ops.values())]


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
