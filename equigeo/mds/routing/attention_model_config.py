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
        What the network sees of an instance: its embedding, scaled to the spread of the unit
        square, or its coordinates, from the centre of the unit square.
    channels : int
        Of every city.
    heads : int
        Of every attention; divides the channels.
    layers : int
        Of the encoder.
    hidden : int
        Channels inside the perceptrons of the encoder.
    clip : float
        Largest score of a city.

    Raises
    ------
    ValueError
        If a setting is out of range.

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
        """Return the settings of a preset.

        Parameters
        ----------
        name : {"default", "paper"}
            What is trained in an hour on one core of a CPU, or the published size.
        inputs : {"mds", "plain"}
            What the network sees.

        Raises
        ------
        ValueError
            If a name is unknown.
        """
        if name == "default":
            return cls(inputs)
        if name == "paper":
            return cls(inputs, channels=128, heads=8, hidden=512)
        raise ValueError(f"preset must be default or paper, got {name!r}")
