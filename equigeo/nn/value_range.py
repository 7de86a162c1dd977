"""What numbers a configuration or an argument may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from operator import index
from typing import Any

from equigeo.nn.brief import shown

_DEPTH = 4  # of lists in lists; the deepest that is meant has two levels


@dataclass(frozen=True)
class Range:
    """An interval of numbers.

    Parameters
    ----------
    least, most : float
        Its ends. Where both are integers, messages name the end that a value is beyond.
    above : bool
        The least number itself is out of range.
    below : bool
        The largest number itself is out of range.
    entries : int
        The longest list of such numbers.

    Examples
    --------
    >>> Range(1, 64).check("heads", 10**30)
    Traceback (most recent call last):
        ...
    ValueError: heads must be at most 64, got 1000000000000000000000000000000
    >>> Range(0.0, 1.0, below=True).check("dropout", float("nan"))
    Traceback (most recent call last):
        ...
    ValueError: dropout must be at least 0 and less than 1, got nan
    """

    least: float
    most: float
    above: bool = False
    below: bool = False
    entries: int = 64

    def check(self, name: str, value: object) -> None:
        """Refuse a number, or a list of numbers, that is out of range.

        Parameters
        ----------
        name : str
            What the value is called.
        value : float, str, bool, None, or list, tuple or dict of them
            Only numbers have a range; flags and texts are passed over.

        Raises
        ------
        ValueError
            If a number is out of range, or a list too long or too deep.
        TypeError
            If it is something else.
        """
        self._check(name, value, value, _DEPTH)

    def _check(self, name: str, value: object, part: object, depth: int) -> None:
        if part is None or isinstance(part, (bool, str)):
            return
        if isinstance(part, (list, tuple, Mapping)):
            if depth == 0:
                raise ValueError(f"{name} must not be nested so deeply, got {shown(value)}")
            if len(part) > self.entries:
                raise ValueError(
                    f"{name} must have at most {self.entries} entries, got {len(part)}"
                )
            for item in part.values() if isinstance(part, Mapping) else part:
                self._check(name, value, item, depth - 1)
        elif not isinstance(part, Real):
            raise TypeError(f"{name} must be a number, got {shown(value)}")
        elif not self._holds(number := float_or_int(part)):
            raise ValueError(f"{name} must {self._expected(number)}, got {shown(value)}")

    def _holds(self, value: float) -> bool:
        # written so that it is false for nan
        low = self.least < value if self.above else self.least <= value
        return low and (value < self.most if self.below else value <= self.most)

    def _expected(self, value: float) -> str:
        """What a value beyond one of the ends should have been."""
        if self.above and not value > self.least:
            return "be positive" if self.least == 0 else f"be more than {self.least:g}"
        if isinstance(self.least, float) or isinstance(self.most, float):
            if self.above or self.below:
                low = "more than" if self.above else "at least"
                high = "less than" if self.below else "at most"
                return f"be {low} {self.least:g} and {high} {self.most:g}"
            return f"be between {self.least:g} and {self.most:g}"
        if value < self.least:
            return "not be negative" if self.least == 0 else f"be at least {self.least}"
        return f"be less than {self.most}" if self.below else f"be at most {self.most}"


def float_or_int(value: Real) -> float:
    """Give a number that compares exactly: an integer of any size as it is."""
    return value if isinstance(value, int) else float(value)


def checked_integer(name: str, value: Any, least: int | None = None) -> int:
    """Take an integer of any library, and refuse flags and other numbers.

    Parameters
    ----------
    name : str
        Of the argument.
    value : int
        What the caller gave.
    least : int, optional
        The smallest.

    Returns
    -------
    int
        The same.

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is too small.

    Examples
    --------
    >>> checked_integer("num_basis", 1, 2)
    Traceback (most recent call last):
        ...
    ValueError: num_basis must be at least 2, got 1
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number
