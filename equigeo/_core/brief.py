"""Values formatted on one line, for messages and representations."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePath
from reprlib import Repr
from typing import Any

import numpy as np
from torch import Tensor

from equigeo._core.text import shorten

_SHOWN = 80  # characters
_ITEMS = 3  # of a list
_LARGE = 256  # bits, 78 digits; Python raises for integers of some thousand digits


def shown(value: object, most: int = _SHOWN) -> str:
    """Format a value for a message, with its middle omitted beyond ``most`` characters."""
    return shorten(_BRIEF.repr(value), most)


class _BriefRepr(Repr):
    """A ``repr`` with bounded depth, length and time, for values read from files."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxdict = _ITEMS
        self.maxstring = _SHOWN

    def repr_int(self, x: int, level: int) -> str:
        large = x.bit_length() > _LARGE
        return f"an integer of {x.bit_length()} bits" if large else repr(x)

    def repr_instance(self, x: object, level: int) -> str:
        if x is None or isinstance(x, (bool, float)):
            return repr(x)
        if isinstance(x, Tensor):  # whose own representation may take long
            return f"<{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}>"
        return f"{str(x)!r}" if isinstance(x, PurePath) else f"<{type(x).__name__}>"


_BRIEF = _BriefRepr()


def brief_fields(instance: Any) -> str:
    """Format a dataclass on one line; use it as ``__repr__`` of a class."""
    parts = [f"{field.name}={_part(getattr(instance, field.name))}" for field in fields(instance)]
    return f"{type(instance).__name__}({', '.join(parts)})"


def _part(value: object) -> str:
    number = len(value) if isinstance(value, (list, tuple, dict)) else 0
    return f"{shown(value)} of {number}" if number > _ITEMS else shown(value)


def brief_repr(value: Any) -> str:
    """Return a one-line representation of a dataclass with shapes, without fields that are None."""
    shown = (
        f"{field.name}={_brief(part)}"
        for field in fields(value)
        if (part := getattr(value, field.name)) is not None
    )
    return f"{type(value).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return repr(value)
