"""Options of an InvariantPointNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class InvariantPointNetConfig(Config):
    """Options of an :class:`equigeo.mds.InvariantPointNet`.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    network : {"pointnet", "pointnet++", "dgcnn", "transformer"}
        Network of the embedded points.
    settings : dict of JSON types
        Arguments of the network that differ from its defaults.
    group, kind, training_kind, training_sample, reduce
        See :class:`equigeo.mds.Invariant`.
    upright : bool
        Whether the network has a logit per class and up direction, to learn from upright clouds;
        needs a group.

    Examples
    --------
    >>> config = InvariantPointNetConfig(10, "dgcnn", {"neighbors": 8})
    >>> InvariantPointNetConfig.from_dict(config.to_dict()) == config
    True
    """

    num_classes: int
    network: Literal["pointnet", "pointnet++", "dgcnn", "transformer"] = "pointnet"
    settings: dict[str, Any] = field(default_factory=dict)
    group: Literal["O", "SO"] | None = "O"
    kind: str = "skew"
    training_kind: str = "skew"
    training_sample: bool = False
    reduce: Literal["mean", "min", "max"] = "mean"
    upright: bool = False

    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "settings": Range(0, 65_536),
    }

    def __post_init__(self) -> None:
        """Validate options that the network does not check."""
        super().__post_init__()
        if self.upright and self.group is None:
            raise ValueError("upright needs a group: without, up is where the last axis points")
