"""Configuration of a mesh classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from equigeo.mesh.conv.node_norm import NormName
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.features import FeatureSet
from equigeo.mesh.models.readout import Statistic, Streams
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class ClassifierConfig(Config):
    """Configuration of a :class:`equigeo.mesh.PrimalDualClassifier`, in JSON types.

    The defaults are the default preset; :meth:`paper` is PD-MeshNet as published.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    dual : str
        Value of a :class:`equigeo.mesh.DualKind`.
    features : {"invariant", "reference", "multiscale"}
        Node features, see :func:`equigeo.mesh.geometry.features.compute_features`.
    channels : tuple of int
        Width of each block per head.
    keep : tuple of float or None
        Share of adjacencies kept by the pooling after each block; None for no pooling.
    heads, skips : int
        Attention heads, and convolutions in each residual branch.
    norm, groups
        Final norm of each block, see :class:`equigeo.mesh.ResidualBlock`.
    max_degree : int or None
        Maximum neighbours of a cluster, see :class:`equigeo.mesh.EdgePool`.
    activation, self_term, coupling : bool
        Options of every :class:`equigeo.mesh.PrimalDualConv`.
    streams, statistics, every_block
        Pooled streams and statistics, of all blocks or of the last one.
    hidden : int or None
        Width of a hidden layer of the head; None for a linear head after a BatchNorm.
    dropout : float
        On the pooled vector.
    area_weighted : bool
        Whether the means of read-out and pooling are weighted by area.

    Examples
    --------
    >>> ClassifierConfig.from_dict(ClassifierConfig(3).to_dict()) == ClassifierConfig(3)
    True
    """

    title: ClassVar[str] = "the configuration of the classifier"
    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "channels": Range(1, 65_536),
        "keep": Range(0.0, 1.0),
        "heads": Range(1, 256),
        "skips": Range(0, 256),
        "groups": Range(1, 65_536),
        "max_degree": Range(1, 2**31),
        "hidden": Range(1, 65_536),
        "dropout": Range(0.0, 1.0),
    }

    num_classes: int
    dual: str = DualKind.SINGLE.value
    features: FeatureSet = "multiscale"
    channels: tuple[int, ...] = (32, 32, 32, 32)
    keep: tuple[float | None, ...] = (None, None, 0.8, None)
    heads: int = 1
    skips: int = 1
    norm: NormName = "batch"
    groups: int | None = None
    max_degree: int | None = 64
    activation: bool = False
    self_term: bool = True
    coupling: bool = False
    streams: Streams = "both"
    statistics: tuple[Statistic, ...] = ("mean", "max")
    every_block: bool = True
    hidden: int | None = None
    dropout: float = 0.5
    area_weighted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        DualKind(self.dual)
        if not self.channels or len(self.channels) != len(self.keep):
            raise ValueError(
                f"channels and keep must have one entry per block, got {len(self.channels)} and "
                f"{len(self.keep)}"
            )

    @classmethod
    def paper(cls, num_classes: int) -> ClassifierConfig:
        """Return PD-MeshNet's classifier for SHREC'11, including its known defects.

        * The features are invariant to SE(3) only; face numbers break ties between the sides of an
          edge.
        * Convolutions have no self term.
        * The read-out pools only the dual stream: the primal stream and the ranking of contractions
          keep their initial values.
        * The first group norm has groups of twelve channels.

        One deviation: equal scores at the quota of a pooling step are not distinguished by their
        numbers, see :class:`equigeo.mesh.EdgePool`.
        """
        return cls(
            num_classes,
            features="reference",
            channels=(64, 128),
            keep=(0.8, 0.8),
            heads=3,
            norm="group",
            groups=16,
            max_degree=None,
            activation=True,
            self_term=False,
            coupling=False,
            streams="dual",
            statistics=("mean",),
            every_block=False,
            hidden=100,
            dropout=0.0,
            area_weighted=False,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClassifierConfig:
        """Build from the result of :meth:`to_dict`, of this version or an earlier one."""
        if isinstance(values, Mapping):
            values = {**_UNKNOWN_EARLIER, **values}
        return super().from_dict(values)


# Fields that configurations of earlier versions lack, and what those versions did.
_UNKNOWN_EARLIER: Final[Mapping[str, Any]] = {"area_weighted": False}
