"""Invariant embeddings: make any network invariant by changing its input.

``embed`` rotates clouds of points to their principal axes, which is classical multidimensional
scaling for points of Euclidean space; ``frames``, ``frame_average`` and ``frame_lift`` deal with
symmetric clouds and equivariant outputs; ``distance_embed`` and its relatives take distances.
"""

from equigeo.mds.embed import embed
from equigeo.mds.embed_options import EmbedOptions
from equigeo.mds.frame_average import frame_average
from equigeo.mds.frame_lift import frame_lift
from equigeo.mds.frame_set import FrameSet
from equigeo.mds.frames import frames
from equigeo.mds.mds_result import MDSResult

__all__ = [
    "EmbedOptions",
    "FrameSet",
    "MDSResult",
    "embed",
    "frame_average",
    "frame_lift",
    "frames",
]
