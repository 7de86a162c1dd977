"""Frames to average a network over, where one frame cannot be chosen invariantly."""

from __future__ import annotations

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.mds.embedding.align import align
from equigeo.mds.embedding.cloud_rows import CloudRows
from equigeo.mds.embedding.embed import check_choices
from equigeo.mds.embedding.embed_options import DEFAULT, EmbedOptions
from equigeo.mds.embedding.flag_reports import check_finite
from equigeo.mds.embedding.frame_constructions import frames_of_kind
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.ops.runtime.autocast import without_autocast

KINDS = ("joint", "frames", "soft", "frames24", "harmonic", "quad", "anchor", "weighted")


def frames(  # noqa: PLR0913 - all by name
    x: TensorLike,
    *,
    kind: str = "joint",
    mask: TensorLike | None = None,
    ptr: TensorLike | None = None,
    batch: TensorLike | None = None,
    weights: TensorLike | None = None,
    group: str = "O",
    scale: str = "none",
    options: EmbedOptions = DEFAULT,
) -> FrameSet:
    """Return all frames of clouds among which none can be chosen invariantly.

    Parameters
    ----------
    x, mask, ptr, batch, weights, scale
        As of :func:`equigeo.mds.embed`.
    kind : {"joint", "frames", "soft", "frames24", "harmonic", "quad", "anchor", "weighted"}
        Averages over these frames are exactly invariant, and continuous, as follows.

        ``joint``: principal axes with the signs that joint moments of degrees 3 to 6 leave open,
        one frame for a generic cloud. Exact for every cloud whose spectrum is simple; jumps where
        a deciding moment vanishes and where eigenvalues cross.

        ``frames``: principal axes with all signs, in three dimensions 8, or 4 right-handed ones.
        Exact and continuous where the spectrum is simple.

        ``soft``: as ``frames``, weighted by skewness, one frame where every skewness exceeds
        ``options.softness``. Exact and continuous where the spectrum is simple.

        ``frames24``: principal axes in every order and with all signs, 48, of which 24 are
        right-handed. Exact where the spectrum is simple, and continuous where axes swap without
        turning.

        ``harmonic``: as ``joint``; where two eigenvalues are equal, axes in their plane point in
        the directions that the lowest moment of an angle leaves: m of a cloud that m turns map to
        itself. Exact unless all three are equal, or no moment of up to ``options.max_frames``
        frames distinguishes a direction; not continuous; at most three dimensions.

        ``quad``: as ``joint``; where two eigenvalues are equal, ``options.quadrature`` angles go
        evenly round in their plane. Not exact there, but near: what is left falls faster than any
        power of their number for smooth networks. At most three dimensions.

        ``anchor``: frames spanned by points that are farthest out. Exact for every cloud,
        whatever its spectrum, unless thinned out to ``options.max_frames``; not continuous; at
        most three dimensions.

        ``weighted``: frames spanned by the pairs of points with the largest areas, weighted by how
        far their area exceeds that of pairs without a frame: within ``options.softness`` of the
        largest, and at most ``options.max_frames`` frames. Exact and continuous for every cloud
        that is not on a line, also where eigenvalues cross, unless more pairs than there are frames
        for tie for the largest area; at most three dimensions.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    options : EmbedOptions
        As of :func:`equigeo.mds.embed`; nobody is warned, see ``exact`` of the result.

    Returns
    -------
    FrameSet
        Coordinates in each frame, frames and weights.

    Raises
    ------
    TypeError, ValueError
        As of :func:`equigeo.mds.embed`; if the kind is unknown or not for so many dimensions.

    Equivariance
    ------------
    The weighted set turns with the points: coordinates are an invariant set.

    References
    ----------
    Puny et al., "Frame averaging for invariant and equivariant network design", 2022; Li et al.,
    "A closer look at rotation-invariant deep point cloud analysis", 2021; Dym, Lawrence and
    Siegel, "Equivariant frames and the impossibility of continuous canonicalization", 2024.

    Examples
    --------
    >>> import torch
    >>> cube = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 3)
    >>> found = frames(cube, kind="anchor", group="SO")
    >>> len(found), bool(found.exact), bool(frames(cube, kind="frames").exact)
    (48, True, False)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    if group not in ("O", "SO"):
        raise ValueError(f'group must be "O" or "SO", got {group!r}')
    check_choices(group=group, sign="skew", scale=scale)
    points = as_tensor(x, "points")
    with without_autocast(points.device.type):
        clouds = CloudRows.of(points, mask, ptr, weights, batch)
        aligned = align(clouds, group, scale, options)
        check_finite(aligned)
        return frames_of_kind(kind, aligned)
