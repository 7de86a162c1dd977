"""Base of configurations: frozen dataclasses that convert to and from JSON types."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from equigeo._core.brief import shown
from equigeo._core.checks import DEPTH, convert_numbers, converted, options_of

_NAMED: dict[Any, tuple[Any, ...]] = {  # in messages
    bool: (True, False), float: ("a number",), str: ("a string",)
}  # fmt: skip


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
        self._check(name, value, value, DEPTH)

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


def within(
    least: float, most: float, *, default: Any = MISSING, **options: Any  # of Range
) -> Any:  # fmt: skip
    """Declare a numeric field of a configuration and the range of its numbers."""
    return field(default=default, metadata={"range": Range(least, most, **options)})


_Config = TypeVar("_Config", bound="Config")  # typing.Self is newer than Python 3.10


@dataclass(frozen=True)
class Config:
    """Base of frozen dataclasses of options that convert to JSON types and validate on reading."""

    complete: ClassVar[bool] = False  # whether from_dict requires every field
    title: ClassVar[str] = "the configuration"  # name in error messages
    # valid numbers of fields that are not declared by `within`; files are untrusted
    ranges: ClassVar[Mapping[str, Range]] = {}

    def __post_init__(self) -> None:
        """Convert the numbers of other libraries, and validate choices and ranges."""
        convert_numbers(self)
        # mypy looks for the hash of a class among the methods of its instances
        for name, hint in _choices(type(self)).items():  # type: ignore[arg-type]
            if not _fits(getattr(self, name), hint):
                raise ValueError(
                    f"{name} must be {_listed(hint)}, got {shown(getattr(self, name))}"
                )
        for name, allowed in ranges_of(type(self)).items():  # type: ignore[arg-type]
            allowed.check(name, getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types: nested dictionaries, and lists for tuples."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        """Build from the output of :meth:`to_dict`; raise ``ValueError`` for other values."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.title} must be a JSON object, got {type(values).__name__}")
        cls._check_names(values)
        hints = get_type_hints(cls)
        return cls(**{name: cls._read(name, value, hints[name]) for name, value in values.items()})

    @classmethod
    def _check_names(cls, values: Mapping[str, Any]) -> None:
        known = {field.name for field in fields(cls)}
        # without a default: both are dataclasses.MISSING
        plain = {f.name for f in fields(cls) if f.init and f.default is f.default_factory}
        needed = known if cls.complete else plain
        missing, unknown = sorted(needed - set(values)), sorted(set(map(str, values)) - known)
        if missing or unknown:
            raise ValueError(
                f"{cls.title} has missing fields {shown(missing)} "
                f"and unknown fields {shown(unknown)}"
            )

    @classmethod
    def _read(cls, name: str, value: Any, hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, Config):
            return hint.from_dict(value)
        if not _fits(value, hint):
            raise ValueError(f"{cls.title} has {name} = {shown(value)}, expected {_describe(hint)}")
        is_tuple = any(get_origin(option) is tuple for option in options_of(hint))
        return tuple(value) if is_tuple and isinstance(value, (list, tuple)) else value


@cache  # a few classes, each with few fields
def ranges_of(cls: type[Config]) -> dict[str, Range]:
    """Return the valid numbers of all fields, also of those that a subclass declares again."""
    bases = [base for base in reversed(cls.__mro__) if is_dataclass(base)]
    declared = [each for base in bases for each in fields(base) if "range" in each.metadata]
    return {each.name: each.metadata["range"] for each in declared} | dict(cls.ranges)


@cache
def _choices(cls: type[Config]) -> dict[str, Any]:
    """Return the hints of the fields with a few values, and of flags, floats and strings."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    return {
        name: hints[name]
        for name in names
        if any(get_origin(o) is Literal or o in _NAMED for o in options_of(hints[name]))
    }


def _listed(hint: Any) -> str:
    """Format the choices of a hint."""
    found = [c for o in options_of(hint) for c in get_args(o) or _NAMED.get(o, (o,))]
    names = ["None" if choice is types.NoneType else str(choice) for choice in found]
    return " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"


def _to_json(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if is_dataclass(value):
        raise TypeError(f"{type(value).__name__} must be a Config to become JSON")
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, (tuple, list)) else value


def _fits(value: object, hint: Any) -> bool:
    """Return whether a JSON value has a type; booleans are not numbers."""
    if hint is Any:
        return True
    options = options_of(hint)
    if len(options) > 1:
        return any(_fits(value, option) for option in options)
    origin = get_origin(hint)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if origin is tuple:
        return isinstance(value, (list, tuple)) and _each_fits(value, get_args(hint))
    if origin is not None:  # dict[str, Any] and the like: by the container alone
        return isinstance(value, origin)
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is int:
        return hasattr(value, "__index__")  # NumPy's integers too
    return isinstance(value, Real if hint is float else hint)


def _each_fits(values: list[Any] | tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    """Return whether items match ``tuple[X, ...]`` or ``tuple[X, Y]``."""
    if hints[-1] is Ellipsis:
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def override(
    config: _Config,
    changes: Mapping[str, Any],  # new values by name; nested configurations as mappings of changes
) -> _Config:
    """Return a configuration with some fields changed, validated again."""
    if not changes:
        return config
    changes = converted(changes, type(config))
    return type(config).from_dict(_merged(config.to_dict(), changes))


def check_config(config: object, kind: type[Config]) -> None:
    """Raise ``TypeError`` if a value is not a configuration of the given type."""
    if not isinstance(config, kind):
        given = "None" if config is None else type(config).__name__
        raise TypeError(
            f"config must be a {kind.__name__}, got {given}: see from_config and preset"
        )


def _merged(values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, value in changes.items():
        old = values.get(name)
        if isinstance(value, Config):
            value = value.to_dict()
        elif isinstance(value, Mapping) and isinstance(old, dict):
            value = _merged(old, value)
        merged[name] = value
    return merged
