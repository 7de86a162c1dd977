"""Layer normalization of features of any degree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor

from equigeo.nn._irreps_argument import IrrepsLike
from equigeo.nn.norms.irreps_norm import IrrepsNorm, Normalization
from equigeo.reps.irreps import Layout


class EquivariantLayerNorm(IrrepsNorm):
    r"""Center scalars and divide each term by its root mean square over channels and components.

    .. math:: x_0 \leftarrow x_0 - \langle x_0 \rangle, \qquad
        z_l = \frac{w\, x_l}{\sqrt{\langle x_{lm}^2 \rangle + \epsilon}} + b

    (Liao, Smidt, "Equiformer", 2023; Liao et al., "EquiformerV2", 2024). Only ``0e`` is centered
    and shifted: pseudoscalars change sign under reflections. Equivariant under O(3).

    Parameters
    ----------
    irreps : Irreps, e3nn.o3.Irreps or str
        Irreps of input and output. Terms are not merged.
    normalization : {"component", "norm"}
        Size of a term: mean square of its components, or of the lengths of its irreps.
    degrees : {"separate", "together"}
        Whether each term is divided by its own size, or all but ``0e`` by their mean (their sum for
        ``normalization="norm"``). fairchem: ``layer_norm`` and ``layer_norm_sh``.
    eps : float
        Added to mean squares.
    affine : bool
        Whether irreps have trainable factors (``weight``, ones) and ``0e`` shifts (``bias``,
        zeros).
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> import torch
    >>> norm = EquivariantLayerNorm("2x0e + 1x1o", affine=False)
    >>> norm(torch.tensor([5.0, 3.0, 0.0, 4.0, 0.0])).round(decimals=3)
    tensor([ 1.0000, -1.0000,  0.0000,  1.7320,  0.0000])
    """

    def __init__(
        self,
        irreps: IrrepsLike,
        normalization: Normalization = "component",
        *,
        degrees: Literal["separate", "together"] = "separate",
        eps: float = 1e-5,
        affine: bool = True,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__(
            irreps, normalization, centering=True, eps=eps, affine=affine, layout=layout
        )
        if degrees not in ("separate", "together"):
            raise ValueError(f'degrees must be "separate" or "together", got {degrees!r}')
        self.degrees = degrees

    _default_options: ClassVar[Mapping[str, Any]] = {
        "normalization": "component",
        "degrees": "separate",
    }

    def _saved_options(self) -> Mapping[str, Any]:
        return {**super()._saved_options(), "degrees": self.degrees}

    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        if self.degrees == "separate":
            return [self._factor([square]) for square in squares]
        scalar = [ir == (0, 1) for _, ir in self._terms]
        others = [s for s, alone in zip(squares, scalar, strict=True) if not alone]
        common = [self._factor(others)] if others else []
        return [
            self._factor([square]) if alone else common[0]
            for square, alone in zip(squares, scalar, strict=True)
        ]
