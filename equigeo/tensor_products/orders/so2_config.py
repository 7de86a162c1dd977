"""Options of convolutions by orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equigeo.nn.config import Config


@dataclass(frozen=True)
class SO2Config(Config):
    """Options of convolutions by orders.

    Parameters
    ----------
    group : {"O3", "SO3"}
        "O3" allows the weights that parities allow: real parts between irreps that are both
        natural, p = (-1)^l, or both not, imaginary parts between one of each. "SO3" ignores
        parities, as fairchem does; energies of mirror images then differ.
    modulation : {None, "order", "degree"}
        Factors per edge that multiply its source in the frame: none, one per order of each copy,
        or one per copy.
    bias : bool
        Whether order 0 of the frame has a bias; with "O3" only natural irreps do.
    sources : {"source", "both"}
        Whether an edge sends the features of its source, or those of source and target side by
        side, the channels of the source first in each term.
    layout : {"mul_ir", "ir_mul"}
    internal_weights : bool
        Whether the module owns its matrices; otherwise ``forward`` takes them.

    Examples
    --------
    >>> SO2Config(group="SO3", modulation="order").bias
    False
    """

    title = "the configuration of a convolution by orders"

    group: Literal["O3", "SO3"] = "O3"
    modulation: Literal["order", "degree"] | None = None
    bias: bool = False
    sources: Literal["source", "both"] = "source"
    layout: Literal["mul_ir", "ir_mul"] = "mul_ir"
    internal_weights: bool = True
