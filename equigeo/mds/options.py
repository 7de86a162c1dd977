"""Advanced options of embeddings, besides group, signs and scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from equigeo._core.config import Config, within

FrameKind = Literal["skew", "joint", "frames", "soft", "harmonic", "anchor", "weighted"]


@dataclass(frozen=True)
class EmbedOptions(Config):
    """Advanced options of embeddings, and of averages over frames.

    Parameters
    ----------
    translation : bool
        Whether to divide out translations. If not, axes pass through the origin, and signs come
        from first moments, or from third ones where those vanish.
    null_tol : float
        An axis is null if points spread less than this many roundings of the largest coordinate.
    gap_tol : float, optional
        Axes are degenerate up to this difference of eigenvalues, relative to the first; by default
        1e-8 in float64 and 1e-4 in float32.
    sign_tol : float, optional
        A sign is ambiguous up to this margin; by default 1e-9 in float64 and 1e-5 in float32. Both
        bounds increase to the effect of rounding of the input.
    grad : {"exact", "detach"}
        Whether axes are differentiated. Without, gradients are equivariant and never singular, but
        not those of the embedding. Exact ones grow as the inverse of the smallest relative gap, to
        1,300 times the others for a prism that is one part in a thousand off isotropy, and 7,000
        times for an isotropic one: clip them, detach them, or average over weighted frames.
    fallback : {"warn", "error", "frames", "anchor", "ignore"}
        For flagged clouds: warn, once per process; raise; or add sign frames or anchor frames to
        the result, for :func:`equigeo.mds.frame_average`.
    nan_policy : {"raise", "propagate"}
        Whether clouds that are not finite raise, or become NaN.
    robust : bool
        Whether to weight points by the area around them, which averages out differences in density.
        Copies of a point share its weight and outliers have a thousandth of it. Meant for surfaces
        of more than a hundred points; constant in gradients, not for compiled programs.
    stability : float
        Axes of an embedding below this :attr:`MDSResult.stability` are ambiguous; zero for none.
    softness : float
        Margin from which soft and weighted frames have one sign only; gap between eigenvalues,
        relative to the larger one, from which weighted frames are principal axes; share of the
        largest area within which frames spanned by points count, at most 0.9.
    max_frames : int
        Largest number of frames per cloud that points span. Anchor frames beyond it are thinned out
        and no longer exact; weighted frames remain exact unless more areas tie.
    training_kind : str, optional
        ``kind`` of an :class:`Invariant` in training mode; by default the same.
    training_sample : bool
        In training mode, an :class:`Invariant` draws one frame per cloud and call instead of
        averaging: one pass.
    reduce : {"mean", "min", "max"}
        How an :class:`Invariant` averages, see :func:`frame_average`; "mean" with ``rep_out``.

    Examples
    --------
    >>> EmbedOptions(grad="detach").grad
    'detach'
    """

    title: ClassVar[str] = "the options of an embedding"

    translation: bool = True
    null_tol: float = within(0.0, 1e15, default=8.0)
    gap_tol: float | None = within(0.0, 1.0, default=None)
    sign_tol: float | None = within(0.0, 1.0, default=None)
    grad: Literal["exact", "detach"] = "exact"
    fallback: Literal["warn", "error", "frames", "anchor", "ignore"] = "warn"
    nan_policy: Literal["raise", "propagate"] = "raise"
    robust: bool = False
    stability: float = within(0.0, 1.0, default=0.0)
    softness: float = within(0.0, 1.0, above=True, default=0.1)
    max_frames: int = within(0, 2**20, above=True, default=256)
    training_kind: FrameKind | None = None
    training_sample: bool = False
    reduce: Literal["mean", "min", "max"] = "mean"


DEFAULT = EmbedOptions()


@dataclass(frozen=True, eq=False, repr=False)
class FrameSet:
    """Frames to average over, equivariant as a weighted set.

    All clouds of a batch have equally many frames; unused ones have weight zero.

    Parameters
    ----------
    y : Tensor, (frames, ..., points, dim)
        Coordinates in each frame.
    frame : Tensor, (frames, ..., dim, dim)
        Axes as columns.
    weight : Tensor, (frames, ...)
        Nonnegative, with sum one per cloud.
    centroid, scale, null, ptr
        See :class:`MDSResult`; ``null`` is False for frames without principal axes.
    exact : Tensor, (...), bool
        Whether averages over the frames are invariant up to rounding.
    group : {"O", "SO"}
        Whether frames may be left-handed.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import frames
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> len(frames(box, group="O")), len(frames(box, group="SO"))
    (8, 4)
    """

    y: Tensor
    frame: Tensor
    weight: Tensor
    centroid: Tensor
    scale: Tensor
    null: Tensor
    exact: Tensor
    group: str
    ptr: Tensor | None = None

    def __repr__(self) -> str:
        exact = "" if self.y.is_meta else f", exact={int(self.exact.sum())}"
        return (
            f"FrameSet(frames={len(self)}, y={tuple(self.y.shape)} {self.y.dtype}, "
            f"clouds={self.scale.numel()}{exact}, group={self.group!r})"
        )

    def __len__(self) -> int:
        return len(self.weight)
