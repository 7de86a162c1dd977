"""Conversion of irreps and layouts from and to cuEquivariance."""

from __future__ import annotations

from typing import Any, Literal

from equigeo.interop._require import require
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout

Group = Literal["O3", "O3_e3nn"]


def require_cue() -> Any:
    """Import ``cuequivariance``, or raise an error that tells how to install it."""
    return require("cuequivariance", "cuequivariance")


def to_cue_irreps(irreps: Irreps | str, group: Group = "O3") -> Any:
    """Convert irreps to cuEquivariance, with the same terms.

    ``group`` is the class of irreps, "O3" or "O3_e3nn", which determines how cuEquivariance sorts.

    Examples
    --------
    >>> to_cue_irreps("16x0e + 8x1o")
    16x0e+8x1o
    """
    cue = require_cue()
    if group == "O3":
        irrep = cue.O3
    elif group == "O3_e3nn":
        experimental = require("cuequivariance.group_theory.experimental.e3nn", "cuequivariance")
        irrep = experimental.O3_e3nn
    else:
        raise ValueError(f'group must be "O3" or "O3_e3nn", got {group!r}')
    terms = Irreps(irreps).terms if isinstance(irreps, str) else irreps.terms
    return cue.Irreps(irrep, [(mul, irrep(l=l, p=p)) for mul, (l, p) in terms])


def from_cue_irreps(irreps: Any, layout: Layout | None = None) -> Irreps:
    """Convert irreps of cuEquivariance.

    Parameters
    ----------
    irreps : cuequivariance.Irreps or cuequivariance.IrrepsAndLayout
        Of O(3), or of SO(3), which become even, so that products remain the same.
    layout : {"mul_ir", "ir_mul"}, optional
        By default that of ``irreps`` if it has one, else ``"mul_ir"``.

    Examples
    --------
    >>> import cuequivariance as cue
    >>> from_cue_irreps(cue.IrrepsAndLayout(cue.Irreps("SO3", "2x0+3x1"), cue.ir_mul))
    Irreps('2x0e+3x1e', layout='ir_mul')
    """
    cue = require_cue()
    if isinstance(irreps, cue.IrrepsAndLayout):
        layout = layout or from_cue_layout(irreps.layout)
        irreps = irreps.irreps
    if not isinstance(irreps, cue.Irreps) or not issubclass(irreps.irrep_class, (cue.O3, cue.SO3)):
        raise TypeError(f"expected irreps of O3 or SO3 of cuequivariance, got {irreps!r}")
    return Irreps([(mul, (ir.l, getattr(ir, "p", 1))) for mul, ir in irreps], layout or "mul_ir")


def to_cue_layout(layout: Layout) -> Any:
    """Return a layout of cuEquivariance by its name."""
    return getattr(require_cue(), layout)


def from_cue_layout(layout: Any) -> Layout:
    """Return the name of a layout of cuEquivariance."""
    return "mul_ir" if layout == require_cue().mul_ir else "ir_mul"
