"""Conversion of modules to e3nn."""

from __future__ import annotations

from typing import Any

from torch import nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.descriptions.describe import OURS, describe
from equigeo.interop.descriptions.term_order import WeightOrder
from equigeo.interop.sort_irreps import IrrepsOrder


def to_e3nn(
    module: nn.Module,
    *,
    irreps_order: IrrepsOrder | None = None,
    weight_order: WeightOrder | None = None,
) -> Any:
    """Convert a module of this library to a module of e3nn.

    Weights are copied, in the same flat order unless another is asked for. The dtype and device,
    ``training`` and ``requires_grad`` stay. The tables of e3nn are built in float64, then cast.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        Read only; in the layout ``mul_ir``, for e3nn knows no other.
    irreps_order : {"e3nn", "natural"}, optional
        Sort the terms of all operands, see :func:`sort_irreps`; by default they stay.
    weight_order : {"output", "instruction"}, optional
        Sort the weights, see :func:`reorder`; by default they stay.

    Returns
    -------
    Module
        Of the class of the same name where e3nn has one and it can have these paths, else an
        ``e3nn.o3.TensorProduct``.

    Raises
    ------
    TypeError
        If the module is of another class; the message says which are supported.
    ValueError
        If the layout is not ``mul_ir``, an option is unknown, or e3nn cannot build the module, such
        as a square whose terms were sorted.

    Examples
    --------
    >>> from equigeo.nn import Linear
    >>> linear = to_e3nn(Linear("4x0e+16x1o", "8x0e+8x1o"))
    >>> type(linear).__module__, linear.weight_numel
    ('e3nn.o3._linear', 160)
    """
    name, description = describe(module, OURS)
    if description.layout != "mul_ir":
        raise ValueError(
            f'e3nn has the layout "mul_ir", the module "{description.layout}": change it by '
            'interop.reorder(module, layout="mul_ir"), and its features by Irreps.to_layout'
        )
    description, _ = description.reordered(irreps_order, weight_order)
    converted = description.build(require_e3nn(), name)
    description.copy_into(converted, module)
    return converted
