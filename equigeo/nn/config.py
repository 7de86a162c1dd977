"""The base of all configurations: frozen dataclasses that become JSON and come back checked."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from equigeo.nn.brief import shown
from equigeo.nn.value_range import Range

_Config = TypeVar("_Config", bound="Config")  # typing.Self is newer than Python 3.10


@dataclass(frozen=True)
class Config:
    """Base of configurations of models and of training runs.

    A subclass is a frozen dataclass whose fields have JSON types, tuples of them, or other
    configurations. A model keeps its configuration as ``model.config``, and
    ``type(model).from_config(config)`` builds the model again; a checkpoint holds
    ``model.config.to_dict()``.

    Attributes
    ----------
    complete : bool
        Class attribute: whether :meth:`from_dict` wants every field; otherwise those that are
        missing take their defaults.
    title : str
        Class attribute: what error messages call it.
    ranges : mapping of str to Range
        Class attribute: what numbers the fields may hold, every field that holds any. Files that
        nobody vouches for become configurations, so the ends keep what is built from them small
        enough to be refused quickly.

    Raises
    ------
    ValueError
        If a number is out of its range, or none of the choices of its field. A subclass that
        checks more calls :meth:`__post_init__` of this one.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Layer(Config):
    ...     channels: tuple[int, ...] = (8, 16)
    >>> Layer().to_dict()
    {'channels': [8, 16]}
    >>> Layer.from_dict({"channels": [4]})
    Layer(channels=(4,))
    >>> Layer.from_dict({"channels": [4.5]})
    Traceback (most recent call last):
    ValueError: the configuration has channels = [4.5], expected tuple[int, ...]
    """

    complete: ClassVar[bool] = False
    title: ClassVar[str] = "the configuration"
    ranges: ClassVar[Mapping[str, Range]] = {}

    def __post_init__(self) -> None:
        """Check choices and ranges."""
        # mypy looks for the hash of a class among the methods of its instances
        for name, hint in _choices(type(self)).items():  # type: ignore[arg-type]
            if not _fits(getattr(self, name), hint):
                raise ValueError(
                    f"{name} must be {_listed(hint)}, got {shown(getattr(self, name))}"
                )
        for name, allowed in self.ranges.items():
            allowed.check(name, getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Give JSON types: nested dictionaries, lists for tuples."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        """Read what :meth:`to_dict` gave.

        Parameters
        ----------
        values : mapping
            Values by name.

        Raises
        ------
        ValueError
            If ``values`` is no mapping, if a field is unknown, missing or of another type, or if
            the configuration refuses a value.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.title} must be a JSON object, got {type(values).__name__}")
        cls._check_names(values)
        hints = get_type_hints(cls)
        return cls(**{name: cls._read(name, value, hints[name]) for name, value in values.items()})

    @classmethod
    def _check_names(cls, values: Mapping[str, Any]) -> None:
        known = {field.name for field in fields(cls)}
        needed = known if cls.complete else _required(cls)
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
        return _from_json(value, hint)


@cache  # a few classes, each with few fields
def _choices(cls: type[Config]) -> dict[str, Any]:
    """Hints of the fields that are one of a few values, or several of them."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    return {
        name: hints[name]
        for name in names
        if any(get_origin(option) is Literal for option in _options(hints[name]))
    }


def _listed(hint: Any) -> str:
    """Name the choices of a hint."""
    found = [c for o in _options(hint) for c in (get_args(o) if get_origin(o) is Literal else (o,))]
    names = ["None" if choice is types.NoneType else str(choice) for choice in found]
    return " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"


def _required(cls: type[Config]) -> set[str]:
    """Names of the fields that have no default."""
    parameters = [field for field in fields(cls) if field.init]
    return {
        field.name
        for field in parameters
        if field.default is field.default_factory  # both are dataclasses.MISSING
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if is_dataclass(value):
        raise TypeError(f"{type(value).__name__} must be a Config to become JSON")
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, (tuple, list)) else value


def _from_json(value: Any, hint: Any) -> Any:
    """Turn lists into tuples where the hint says so."""
    if isinstance(value, (list, tuple)) and any(get_origin(h) is tuple for h in _options(hint)):
        return tuple(value)
    return value


def _options(hint: Any) -> tuple[Any, ...]:
    """Alternatives of a union, or the hint alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    """Whether a JSON value is of a type; true and false are no numbers."""
    if hint is Any:
        return True
    options = _options(hint)
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
    return isinstance(value, (int, float) if hint is float else hint)


def _each_fits(values: list[Any] | tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    """Whether items are as in ``tuple[X, ...]`` or ``tuple[X, Y]``."""
    if hints[-1] is Ellipsis:
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
