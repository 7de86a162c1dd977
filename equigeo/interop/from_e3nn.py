"""Modules of e3nn made into modules of this library."""

from __future__ import annotations

from typing import Any

from torch import nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.descriptions.describe import OURS, describe
from equigeo.interop.descriptions.term_order import WeightOrder
from equigeo.interop.sort_irreps import IrrepsOrder
from equigeo.reps.irreps import Layout


def from_e3nn(
    module: nn.Module,
    *,
    irreps_order: IrrepsOrder | None = None,
    weight_order: WeightOrder | None = None,
    layout: Layout = "mul_ir",
) -> Any:
    """Make the module of this library that computes what a module of e3nn computes.

    Weights are copied, in the same flat order unless another is asked for. The dtype and device,
    ``training`` and ``requires_grad`` stay. Tables are exact where e3nn has rounded its own to the
    default dtype. ``SphericalHarmonics`` with ``normalize=True`` divide every vector by its length,
    where e3nn divides those shorter than 1e-12 by 1e-12.

    Parameters
    ----------
    module : e3nn.o3.TensorProduct, FullyConnectedTensorProduct, FullTensorProduct, \
ElementwiseTensorProduct, Linear or SphericalHarmonics
        Read only; of e3nn 0.4.4 to 0.6, accelerated or not.
    irreps_order : {"e3nn", "natural"}, optional
        Sort the terms of all operands, see :func:`sort_irreps`; by default they stay.
    weight_order : {"output", "instruction"}, optional
        Sort the weights, see :func:`reorder`; by default they stay.
    layout : {"mul_ir", "ir_mul"}
        Of the new module. The weights are the same in both.

    Returns
    -------
    Module
        Of the class of the same name, or a ``TensorProduct`` where that class could not have these
        paths. ``SphericalHarmonics`` has no tensor that tells its device: it stays on the CPU.

    Raises
    ------
    TypeError
        If the module is of another class; the message says which are supported.
    ValueError
        If an option is unknown, or the module is a ``Linear`` with ``f_in`` and ``f_out``.

    Examples
    --------
    >>> from e3nn import o3
    >>> product = from_e3nn(o3.FullyConnectedTensorProduct("2x0e+3x1o", "4x0e+5x1o", "6x0e"))
    >>> type(product).__name__, product.weight_numel
    ('FullyConnectedTensorProduct', 138)
    """
    name, description = describe(module, require_e3nn(), layout)
    description, _ = description.reordered(irreps_order, weight_order)
    converted = description.build(OURS, name)
    description.copy_into(converted, module)
    return converted
