"""Conversion of modules from and to e3nn, and between layouts."""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from typing import Any, Literal

from torch import nn

from equigeo.interop.accelerated.descriptions import OURS, describe, rebuild
from equigeo.interop.optional import require_e3nn
from equigeo.nn import Activation, Gate, NormalizedActivation
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


def from_e3nn(
    module: nn.Module, *, layout: Layout = "mul_ir", constants: Literal["e3nn", "exact"] = "e3nn"
) -> Any:
    """Convert a module of e3nn to a module of this library, also an accelerated one.

    Weights are copied in the same flat order; dtype, device, ``training`` and ``requires_grad``
    stay. Tables are exact, not rounded to the default dtype. ``SphericalHarmonics`` with
    ``normalize=True`` divide every vector by its length, e3nn those below 1e-12 by 1e-12.

    Parameters
    ----------
    module : e3nn.o3.TensorProduct, FullyConnectedTensorProduct, FullTensorProduct, \
ElementwiseTensorProduct, TensorSquare, Linear or SphericalHarmonics, or e3nn.nn.Gate or Activation
        Of e3nn 0.4.4 to 0.6; not a ``Linear`` with ``f_in`` and ``f_out``.
    layout : {"mul_ir", "ir_mul"}
        Layout of the new module; the weights are the same in both.
    constants : {"e3nn", "exact"}
        Normalization of the functions of ``Gate`` and ``Activation``: e3nn's estimates from random
        numbers, or exact constants, which differ by up to 2e-3.

    Returns
    -------
    Module
        Of the class of the same name, or a ``TensorProduct`` if that class has other paths.
        ``SphericalHarmonics`` are on the CPU.

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
        return made
    name, description = describe(module, o3, layout)
    return rebuild(description, OURS, name, module)


def _with_functions(module: Any, estimated: bool, layout: Layout) -> nn.Module | None:
    """Convert a gate or activation, or return None for other modules."""
    theirs = import_module("e3nn.nn")
    computes = getattr(type(module), "made_of", (None, type(module)))[1]

    def functions(activation: Any) -> list[NormalizedActivation | None]:
        return [None if act is None else scaled(act) for act in activation.acts]

    def scaled(act: Any) -> NormalizedActivation:
        estimate = 1.0 if getattr(act, "_is_id", False) else act.cst
        return NormalizedActivation(deepcopy(act.f), estimate if estimated else None)

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


def to_e3nn(module: nn.Module) -> Any:
    """Convert a module of this library to a module of e3nn.

    Weights are copied in the same flat order; dtype, device, ``training`` and ``requires_grad``
    stay. The tables of e3nn are built in float64, then cast.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        In the layout ``mul_ir``; see :func:`reorder`.

    Returns
    -------
    Module
        Of the class of the same name if e3nn has it with these paths, else an
        ``e3nn.o3.TensorProduct``.

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
    return rebuild(description, require_e3nn(), name, module)


def reorder(module: nn.Module, *, layout: Layout) -> Any:
    """Build the same map in another layout, with the same weights.

    Its features are those of the given module after ``Irreps.to_layout``.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        Of this library; not changed. Classes with a fixed order of terms may become a
        ``TensorProduct``.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> from equigeo.tensor_products import FullTensorProduct
    >>> reorder(FullTensorProduct("2x1o", "1o"), layout="ir_mul").irreps_in1
    Irreps('2x1o', layout='ir_mul')
    """
    name, description = describe(module, OURS, layout)
    return rebuild(description, OURS, name, module)
