"""Conversion of e3nn modules to this library."""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from typing import Any, Literal

from torch import nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.descriptions.describe import OURS, describe
from equigeo.interop.descriptions.term_order import WeightOrder
from equigeo.interop.sort_irreps import IrrepsOrder
from equigeo.nn import Activation, Gate, NormalizedActivation
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


def from_e3nn(
    module: nn.Module,
    *,
    irreps_order: IrrepsOrder | None = None,
    weight_order: WeightOrder | None = None,
    layout: Layout = "mul_ir",
    constants: Literal["e3nn", "exact"] = "e3nn",
) -> Any:
    """Convert a module of e3nn to a module of this library.

    Weights are copied, in the same flat order unless another is asked for. The dtype and device,
    ``training`` and ``requires_grad`` stay. Tables are exact where e3nn has rounded its own to the
    default dtype. ``SphericalHarmonics`` with ``normalize=True`` divide every vector by its length,
    where e3nn divides those shorter than 1e-12 by 1e-12.

    Parameters
    ----------
    module : e3nn.o3.TensorProduct, FullyConnectedTensorProduct, FullTensorProduct, \
ElementwiseTensorProduct, TensorSquare, Linear or SphericalHarmonics, or e3nn.nn.Gate or Activation
        Read only; of e3nn 0.4.4 to 0.6, accelerated or not.
    irreps_order : {"e3nn", "natural"}, optional
        Sort the terms of all operands, see :func:`sort_irreps`; by default they stay.
    weight_order : {"output", "instruction"}, optional
        Sort the weights, see :func:`reorder`; by default they stay.
    layout : {"mul_ir", "ir_mul"}
        Of the new module. The weights are the same in both.
    constants : {"e3nn", "exact"}
        Normalization of the functions of ``Gate`` and ``Activation``: the constants that e3nn
        estimated from random numbers, or exact ones, which differ by up to 2e-3.

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
        If an option is unknown, the module is a ``Linear`` with ``f_in`` and ``f_out``, or an order
        is asked of a ``Gate`` or ``Activation``.

    Examples
    --------
    >>> from e3nn import o3
    >>> product = from_e3nn(o3.FullyConnectedTensorProduct("2x0e+3x1o", "4x0e+5x1o", "6x0e"))
    >>> type(product).__name__, product.weight_numel
    ('FullyConnectedTensorProduct', 138)
    """
    if constants not in ("e3nn", "exact"):
        raise ValueError(f'constants must be "e3nn" or "exact", got {constants!r}')
    o3 = require_e3nn()
    if (made := _with_functions(module, constants == "e3nn", layout)) is not None:
        if irreps_order or weight_order:
            raise ValueError(
                f"{type(made).__name__} keeps its order, got irreps_order={irreps_order!r}, "
                f"weight_order={weight_order!r}"
            )
        return made
    name, description = describe(module, o3, layout)
    description, _ = description.reordered(irreps_order, weight_order)
    converted = description.build(OURS, name)
    description.copy_into(converted, module)
    return converted


def _with_functions(module: Any, estimated: bool, layout: Layout) -> nn.Module | None:
    """Convert a gate or activation, or return None for other modules."""
    theirs = import_module("e3nn.nn")
    computes = getattr(type(module), "made_of", (None, type(module)))[1]

    def functions(activation: Any) -> list[NormalizedActivation | None]:
        return [None if act is None else _scaled(act, estimated) for act in activation.acts]

    def irreps(given: Any) -> Irreps:
        return Irreps(tuple(given), layout)

    made: nn.Module
    if isinstance(module, theirs.Gate) and computes.forward is theirs.Gate.forward:
        scalars, gates = module.act_scalars, module.act_gates
        made = Gate(
            irreps(scalars.irreps_in),
            functions(scalars),
            irreps(gates.irreps_in),
            functions(gates),
            irreps(module.irreps_gated),
            layout=layout,
        )
    elif isinstance(module, theirs.Activation) and computes.forward is theirs.Activation.forward:
        made = Activation(irreps(module.irreps_in), functions(module), layout=layout)
    else:
        return None
    return made.train(module.training)


def _scaled(act: Any, estimated: bool) -> NormalizedActivation:
    """Convert a function with its constant, or with the exact one on request."""
    estimate = 1.0 if getattr(act, "_is_id", False) else act.cst
    return NormalizedActivation(deepcopy(act.f), estimate if estimated else None)
