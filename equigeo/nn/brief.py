"""Values on one line, for messages and representations, whatever they hold."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePath
from reprlib import Repr
from typing import Any

from torch import Tensor

from equigeo._text import shorten

_SHOWN = 80  # characters
_ITEMS = 3  # of a list
_LARGE = 256  # bits, 78 digits; Python itself refuses to write integers of some thousand digits


def shown(value: object, most: int = _SHOWN) -> str:
    """Write a value for a message: briefly, whatever it is and however deeply it is nested.

    Parameters
    ----------
    value : object
        Anything.
    most : int
        Characters.

    Returns
    -------
    str
        Its beginning and its end, where it is longer.

    Examples
    --------
    >>> shown([1.5, "a"])
    "[1.5, 'a']"
    >>> shown(10**10000)
    'an integer of 33220 bits'
    >>> len(shown(["long" * 1000] * 1000))
    80
    """
    return shorten(_BRIEF.repr(value), most)


class _BriefRepr(Repr):
    """Bounded in depth, length and time, for values that came from a file."""

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
    """Represent a dataclass on one line; a class takes it as its ``__repr__``.

    Parameters
    ----------
    instance : dataclass
        What to represent.

    Examples
    --------
    >>> import torch
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Result:
    ...     scores: torch.Tensor
    ...     names: list[str]
    ...     __repr__ = brief_fields
    >>> Result(torch.rand(100, 3), ["a"] * 1000)
    Result(scores=<float32 (100, 3)>, names=['a', 'a', 'a', ...] of 1000)
    """
    parts = [f"{field.name}={_part(getattr(instance, field.name))}" for field in fields(instance)]
    return f"{type(instance).__name__}({', '.join(parts)})"


def _part(value: object) -> str:
    number = len(value) if isinstance(value, (list, tuple, dict)) else 0
    return f"{shown(value)} of {number}" if number > _ITEMS else shown(value)
