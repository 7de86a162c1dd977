"""Configuration of a mesh segmenter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from equigeo.mesh.conv.node_norm import NormName
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.features import FeatureSet
from equigeo.mesh.models.classifier_config import ClassifierConfig
from equigeo.mesh.models.elements import Elements
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class SegmenterConfig(Config):
    """Configuration of a :class:`equigeo.mesh.PrimalDualSegmenter`, in JSON types.

    The defaults are the default preset; :meth:`paper` is PD-MeshNet as published.

    Parameters
    ----------
    num_classes : int
        Outputs per element: logits, or values of a regression.
    outputs_at : {"faces", "edges", "vertices", "mesh"}
        Elements with outputs.
    channels : tuple of int
        Width of each encoder block per head, then that of the bottleneck.
    keep : tuple of float or None
        Share of adjacencies kept by the pooling after each encoder block; None for no pooling.
    heads : int
        Attention heads of encoder and bottleneck; the decoder has one and reads their mean.
    skips, decoder_skips : int
        Convolutions in residual branches of the encoder, and of bottleneck and decoder.
    context : bool
        Whether the decoder also reads mean and maximum of the bottleneck over each mesh.
    convolve_outputs : bool
        Whether outputs come from a convolution and its norm, or from a linear layer over face
        features and the mean of their adjacencies.
    dropout : float
        Before the linear layer.
    dual, features, norm, groups, max_degree, activation, self_term, coupling, area_weighted
        See :class:`equigeo.mesh.ClassifierConfig`.

    Examples
    --------
    >>> SegmenterConfig.from_dict(SegmenterConfig(3).to_dict()) == SegmenterConfig(3)
    True
    """

    title: ClassVar[str] = "the configuration of the segmenter"
    ranges: ClassVar[Mapping[str, Range]] = {
        **{name: bounds for name, bounds in ClassifierConfig.ranges.items() if name != "hidden"},
        "decoder_skips": Range(0, 256),
    }

    num_classes: int
    outputs_at: Elements = "faces"
    dual: str = DualKind.SINGLE.value
    features: FeatureSet = "multiscale"
    channels: tuple[int, ...] = (32, 64, 64)
    keep: tuple[float | None, ...] = (0.7, 0.7)
    skips: int = 1
    decoder_skips: int = 1
    heads: int = 1
    norm: NormName = "batch"
    groups: int | None = None
    max_degree: int | None = 64
    context: bool = True
    convolve_outputs: bool = False
    dropout: float = 0.2
    activation: bool = False
    self_term: bool = True
    coupling: bool = False
    area_weighted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        DualKind(self.dual)
        if len(self.channels) != len(self.keep) + 1:
            raise ValueError(
                "channels must have one entry more than keep, that of the bottleneck, "
                f"got {len(self.channels)} and {len(self.keep)}"
            )

    @classmethod
    def paper(cls, num_classes: int) -> SegmenterConfig:
        """Return PD-MeshNet's network for COSEG, including its known defects.

        * Convolutions end in a ReLU, also the last one before the norm that gives the logits.
        * Norms are followed by another norm; the first has groups of two channels.

        One deviation: see :meth:`equigeo.mesh.ClassifierConfig.paper`. For human bodies PD-MeshNet
        has two heads.
        """
        return cls(
            num_classes,
            features="reference",
            channels=(32, 64, 128),
            decoder_skips=0,
            norm="group",
            groups=16,
            max_degree=None,
            activation=True,
            self_term=False,
            context=False,
            convolve_outputs=True,
            dropout=0.0,
            area_weighted=False,
        )
