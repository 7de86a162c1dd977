"""Ranges of numbers in configurations and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from equigeo._brief import shown

_DEPTH = 4  # largest depth of nested lists; valid values have at most two levels


@dataclass(frozen=True)
class Range:
    """An interval of valid numbers for options and arguments."""

    least: float  # lower end; integer ends are named in messages
    most: float  # upper end
    above: bool = False  # whether the lower end is excluded
    below: bool = False  # whether the upper end is excluded
    entries: int = 64  # maximum length of a list of such numbers

    def check(
        self,
        name: str,  # name of the value in messages
        value: object,
    ) -> None:
        """Raise if a number, or one in a nested list, is out of range; ignore flags and text."""
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
        else:
            # Integers of any size are compared exactly. The comparisons are false for nan.
            number = part if isinstance(part, int) else float(part)
            low = self.least < number if self.above else self.least <= number
            if not (low and (number < self.most if self.below else number <= self.most)):
                raise ValueError(f"{name} must {self._expected(number)}, got {shown(value)}")

    def _expected(self, value: float) -> str:
        """Return the expected range for the message about a value."""
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
