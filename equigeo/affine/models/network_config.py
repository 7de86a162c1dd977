"""Settings of a network as JSON types, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

Config = TypeVar("Config", bound="NetworkConfig")  # typing.Self is newer than Python 3.10


@dataclass(frozen=True)
class NetworkConfig:
    """What the settings of all networks of this room have in common.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    """

    num_classes: int

    def to_dict(self) -> dict[str, Any]:
        """Give JSON types, lists for tuples."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """Read what :meth:`to_dict` gave; missing settings take their defaults.

        Parameters
        ----------
        values : mapping
            Settings by name.

        Raises
        ------
        ValueError
            If a setting is unknown or ``num_classes`` is missing.
        """
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown or "num_classes" not in values:
            raise ValueError(f"a configuration needs num_classes; unknown are {sorted(unknown)}")
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**settings)
