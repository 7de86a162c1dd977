"""Configurations given to models: of the right kind, or like another but for what is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from equigeo.nn.config import Config

_Config = TypeVar("_Config", bound=Config)


def override(config: _Config, changes: Mapping[str, Any]) -> _Config:
    """Change some fields of a configuration, for instance of a preset.

    Parameters
    ----------
    config : Config
        What to begin with; it is not changed.
    changes : mapping
        New values by name. What is a configuration itself is given as one, or as a mapping of what
        differs in it.

    Returns
    -------
    Config
        Of the same type, checked anew.

    Raises
    ------
    ValueError
        If a name is unknown, or a value is of another type or out of range.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Layer(Config):
    ...     channels: int = 8
    ...     bias: bool = True
    >>> override(Layer(), {"channels": 4})
    Layer(channels=4, bias=True)
    """
    return type(config).from_dict(_merged(config.to_dict(), changes)) if changes else config


def check_config(config: object, kind: type[Config]) -> None:
    """Refuse what is no configuration of a kind.

    Parameters
    ----------
    config : object
        What was given to a model.
    kind : type
        What it takes.

    Raises
    ------
    TypeError
        If it is something else.

    Examples
    --------
    >>> check_config({"channels": 8}, Config)
    Traceback (most recent call last):
    TypeError: config must be a Config, got dict: see from_config and preset
    """
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
