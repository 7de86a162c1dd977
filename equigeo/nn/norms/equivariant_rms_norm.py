"""Root mean square normalization of features of any degree."""

from __future__ import annotations

from torch import Tensor

from equigeo.nn._irreps_argument import IrrepsLike
from equigeo.nn.norms.irreps_norm import IrrepsNorm, Normalization
from equigeo.reps.irreps import Layout


class EquivariantRMSNorm(IrrepsNorm):
    r"""Divide all features by one root mean square over all terms.

    .. math:: z_l = w\, x_l \Big/ \sqrt{\tfrac{1}{T} \textstyle\sum_{t} \langle x_{t}^2 \rangle
        + \epsilon} \; + b

    with T terms, each counted alike, and means over the channels and components of each. It is
    the ``rms_norm_sh`` of fairchem, used by UMA. Only ``0e`` is centered and shifted.

    Parameters
    ----------
    irreps : Irreps, e3nn.o3.Irreps or str
        Of the input, and of the output. Terms are not merged.
    normalization : {"component", "norm"}
        Whether the size of a term is the mean square of its components, or that of the lengths of
        its irreps; lengths are added up over terms, and not averaged.
    centering : bool
        Whether terms ``0e`` lose the mean over their channels, and have shifts.
    eps : float
        Added to the mean square, so that zero stays zero, with finite gradients.
    affine : bool
        Whether each irrep has a factor and each ``0e`` a shift, which train.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Attributes
    ----------
    weight : Parameter, (number of irreps,)
        Factors, ones at first.
    bias : Parameter, (number of 0e,)
        Shifts, zeros at first; empty without ``centering``.

    Raises
    ------
    ValueError
        If irreps cannot be read, ``eps`` is not positive or an option is unknown.

    Equivariance
    ------------
    O(3), improper elements included.

    References
    ----------
    Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019; Wood et al., "UMA", 2025.

    Examples
    --------
    >>> import torch
    >>> norm = EquivariantRMSNorm("1x0e + 1x1o", centering=False)
    >>> norm(torch.tensor([1.0, 0.0, 3.0, 0.0])).round(decimals=3)
    tensor([0.7070, 0.0000, 2.1210, 0.0000], grad_fn=<RoundBackward1>)
    """

    def __init__(
        self,
        irreps: IrrepsLike,
        normalization: Normalization = "component",
        *,
        centering: bool = True,
        eps: float = 1e-5,
        affine: bool = True,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__(
            irreps, normalization, centering=centering, eps=eps, affine=affine, layout=layout
        )

    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        return [self._factor(squares)] * len(squares) if squares else []
