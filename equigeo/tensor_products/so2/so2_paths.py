"""Options of convolutions by orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equigeo._core.config import Config


@dataclass(frozen=True)
class SO2Config(Config):
    """Options of :class:`SO2Conv`, documented there."""

    title = "the configuration of a convolution by orders"

    group: Literal["O3", "SO3"] = "O3"
    modulation: Literal["order", "degree"] | None = None
    bias: bool = False
    sources: Literal["source", "both"] = "source"
    layout: Literal["mul_ir", "ir_mul"] = "mul_ir"
    internal_weights: bool = True
