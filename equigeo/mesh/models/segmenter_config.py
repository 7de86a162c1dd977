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
        Number of outputs for each element: logits of classes, or values of a regression.
    outputs_at : {"faces", "edges", "vertices", "mesh"}
        Which elements have outputs.
    dual : str
        Value of a :class:`equigeo.mesh.DualKind`.
    features : {"invariant", "reference", "sorted", "multiscale"}
        Node features, see :func:`equigeo.mesh.geometry.features.compute_features`.
    channels : tuple of int
        Width of each encoder block, per head, and behind them that of the bottleneck.
    keep : tuple of float or None
        Share of adjacencies that pooling after each encoder block keeps; None for no pooling.
    heads : int
        Attention heads of encoder and bottleneck, whose results the decoder reads averaged; it has
        one itself.
    skips : int
        Convolutions in the residual branch of an encoder block.
    decoder_skips : int
        The same for the bottleneck and the blocks of the decoder.
    norm, groups
        Norm at the end of an encoder block.
    max_degree : int or None
        Cap on the neighbours of a cluster, see :class:`equigeo.mesh.EdgePool`.
    activation, self_term, coupling : bool
        Passed to every convolution.
    context : bool
        Whether the decoder reads the mean and the maximum of the bottleneck over each mesh, too:
        what a part is may depend on what it is a part of.
    convolve_outputs : bool
        Whether outputs come from a last convolution and its norm, or from a linear layer over the
        features of a face and the mean of those of its adjacencies.
    dropout : float
        Before the linear layer.
    area_weighted : bool
        Whether means weigh nodes by the area that they stand for.

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
        """Return the configuration of PD-MeshNet's network for COSEG, known defects included.

        That for human bodies has two heads. Convolutions end in a ReLU, the last one before the
        norm that gives the logits, and norms are followed by another; the first group norm has
        groups of two channels, which leaves little but signs. One thing differs: equal scores at
        the quota of a pooling step are not told apart by their numbers, see
        :class:`equigeo.mesh.EdgePool`.
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
