"""Options of an attention model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class AttentionModelConfig(Config):
    """Options of an :class:`equigeo.mds.AttentionModel`.

    Parameters
    ----------
    inputs : {"mds", "plain"}
        Embedded cities, scaled to the spread of the unit square, or coordinates relative to the
        centre of the unit square.
    channels, heads, layers : int
        Sizes of the encoder; heads divide the channels.
    hidden : int
        Channels inside the perceptrons of the encoder.
    clip : float
        Largest score of a city.

    Examples
    --------
    >>> config = AttentionModelConfig.preset("paper", "plain")
    >>> config.channels, AttentionModelConfig.from_dict(config.to_dict()) == config
    (128, True)
    """

    inputs: Literal["mds", "plain"] = "mds"
    channels: int = 64
    heads: int = 4
    layers: int = 3
    hidden: int = 256
    clip: float = 10.0

    ranges: ClassVar[Mapping[str, Range]] = {
        "channels": Range(1, 65_536),
        "heads": Range(1, 65_536),
        "layers": Range(1, 256),
        "hidden": Range(1, 65_536),
        "clip": Range(0.0, 1e6, above=True),
    }

    @classmethod
    def preset(cls, name: str, inputs: Literal["mds", "plain"] = "mds") -> AttentionModelConfig:
        """Return "default" (one hour of training on a CPU core) or "paper" (published size)."""
        if name == "default":
            return cls(inputs)
        if name == "paper":
            return cls(inputs, channels=128, heads=8, hidden=512)
        raise ValueError(f"preset must be default or paper, got {name!r}")
