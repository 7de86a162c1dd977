"""The same map with its terms, its weights or its components in another order."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.interop.descriptions.describe import OURS, describe
from equigeo.interop.descriptions.term_order import WeightOrder
from equigeo.interop.sort_irreps import IrrepsOrder
from equigeo.reps.irreps import Layout


def reorder(
    module: nn.Module,
    *,
    irreps_order: IrrepsOrder | None = None,
    weight_order: WeightOrder | None = None,
    layout: Layout | None = None,
) -> Any:
    """Sort the terms of a module or its flat weights, or change its layout.

    Features of the new module are those of the old one after :func:`sort_features` and
    ``Irreps.to_layout``; internal weights are moved along, external ones by
    :func:`reorder_weights`.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        Of this library; read only.
    irreps_order : {"e3nn", "natural"}, optional
        Sort the terms of all operands, see :func:`sort_irreps`; by default they stay.
    weight_order : {"output", "instruction"}, optional
        Sort the blocks of weights by the term of the output, as MACE and cuEquivariance do, or by
        the terms of the inputs and then the output, as NequIP does; by default they stay.
    layout : {"mul_ir", "ir_mul"}, optional
        Order of axes inside a term; by default it stays.

    Returns
    -------
    Module
        A new module with the same dtype, device and flags; a ``TensorProduct`` where the class of
        ``module`` fixes the order.

    Raises
    ------
    TypeError
        If the module is of another class.
    ValueError
        If an option is unknown.

    Examples
    --------
    >>> from equigeo.tensor_products import FullTensorProduct
    >>> product = reorder(FullTensorProduct("0e + 1o", "0e + 0o"), irreps_order="natural")
    >>> str(product.irreps_out)
    '1x0e+1x0o+1x1o+1x1e'
    """
    name, description = describe(module, OURS, layout)
    description, _ = description.reordered(irreps_order, weight_order)
    changed = description.build(OURS, name)
    description.copy_into(changed, module)
    return changed


def reorder_weights(
    weight: Tensor,
    module: nn.Module,
    *,
    irreps_order: IrrepsOrder | None = None,
    weight_order: WeightOrder | None = None,
) -> Tensor:
    """Rearrange external weights for a module from :func:`reorder`.

    Parameters
    ----------
    weight : Tensor, (..., weight_numel)
        In the order of ``module``.
    module : Module
        Before it is reordered.
    irreps_order, weight_order : str, optional
        As given to :func:`reorder`.

    Returns
    -------
    Tensor, (..., weight_numel), dtype of ``weight``
        In the order of ``reorder(module, ...)``.

    Raises
    ------
    TypeError
        If the module is of another class.
    ValueError
        If an option is unknown or the last axis is wrong.

    Examples
    --------
    >>> import torch
    >>> from equigeo.nn import Linear
    >>> linear = Linear("1x1o + 1x0e", "2x0e + 3x1o")
    >>> reorder_weights(torch.arange(5), linear, weight_order="output").tolist()
    [3, 4, 0, 1, 2]
    """
    _, description = describe(module, OURS)
    _, positions = description.reordered(irreps_order, weight_order)
    if weight.shape[-1:] != positions.shape:
        raise ValueError(f"weight must be (..., {len(positions)}), got {tuple(weight.shape)}")
    return weight[..., positions.to(weight.device)]
