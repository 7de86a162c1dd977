"""What an attention model is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True)
class AttentionModelConfig:
    """Settings of :class:`equigeo.mds.AttentionModel`, all of JSON types.

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
    >>> settings = AttentionModelConfig.preset("paper", "plain")
    >>> settings.channels, AttentionModelConfig.from_dict(settings.to_dict()) == settings
    (128, True)
    """

    inputs: Literal["mds", "plain"] = "mds"
    channels: int = 64
    heads: int = 4
    layers: int = 3
    hidden: int = 256
    clip: float = 10.0

    def __post_init__(self) -> None:
        """Check what the layers do not check."""
        if self.inputs not in ("mds", "plain"):
            raise ValueError(f"inputs must be mds or plain, got {self.inputs!r}")

    @classmethod
    def preset(cls, name: str, inputs: Literal["mds", "plain"] = "mds") -> AttentionModelConfig:
        """Give the settings of a preset.

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

    def to_dict(self) -> dict[str, Any]:
        """Give a dictionary of JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AttentionModelConfig:
        """Read what ``to_dict`` gave; what is missing takes its default.

        Raises
        ------
        ValueError
            If a setting is unknown or out of range.
        """
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(f"unknown settings {', '.join(unknown)}")
        return cls(**values)
