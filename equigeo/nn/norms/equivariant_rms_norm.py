"""Root mean square normalization of features of any degree."""

from __future__ import annotations

from torch import Tensor

from equigeo.nn.norms.irreps_norm import IrrepsNorm


class EquivariantRMSNorm(IrrepsNorm):
    r"""Divide all features by one root mean square over all terms.

    .. math:: z_l = w\, x_l \Big/ \sqrt{\tfrac{1}{T} \textstyle\sum_{t} \langle x_{t}^2 \rangle
        + \epsilon} \; + b

    with T terms of equal weight and means over the channels and components of each. It is the
    ``rms_norm_sh`` of fairchem, used by UMA (Zhang, Sennrich, "Root Mean Square Layer
    Normalization", 2019; Wood et al., "UMA", 2025). Other arguments: see
    :class:`EquivariantLayerNorm`.

    Parameters
    ----------
    normalization : {"component", "norm"}
        Size of a term: mean square of its components, or of the lengths of its irreps; the latter
        are added over terms, not averaged.
    centering : bool
        Whether ``0e`` terms lose the mean over their channels, and have shifts.

    Examples
    --------
    >>> import torch
    >>> norm = EquivariantRMSNorm("1x0e + 1x1o", affine=False, centering=False)
    >>> norm(torch.tensor([1.0, 0.0, 3.0, 0.0])).round(decimals=3)
    tensor([0.7070, 0.0000, 2.1210, 0.0000])
    """

    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        return [self._factor(squares)] * len(squares) if squares else []
