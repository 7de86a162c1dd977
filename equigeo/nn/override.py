"""Changes and checks of configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from equigeo._integers import converted
from equigeo.nn.config import Config

_Config = TypeVar("_Config", bound=Config)


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
