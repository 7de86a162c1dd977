"""Invariant coordinates of point clouds."""

from __future__ import annotations

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.mds.embedding.align import SCALES, align
from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.cloud_rows import CloudRows
from equigeo.mds.embedding.embed_options import DEFAULT, EmbedOptions
from equigeo.mds.embedding.flag_reports import check_finite, report_flagged
from equigeo.mds.embedding.frame_constructions import fallback_frames, joint_signs
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.labelled_axes import labelled_axes
from equigeo.mds.embedding.mds_result import MDSResult
from equigeo.ops.runtime.autocast import without_autocast


def embed(  # noqa: PLR0913 - all by name
    x: TensorLike,
    *,
    mask: TensorLike | None = None,
    ptr: TensorLike | None = None,
    batch: TensorLike | None = None,
    weights: TensorLike | None = None,
    group: str | None = "O",
    sign: str = "skew",
    scale: str = "none",
    options: EmbedOptions = DEFAULT,
) -> MDSResult:
    r"""Embed point clouds invariantly by classical multidimensional scaling.

    .. math:: y_i = (x_i - c)\, F / \sigma

    For points of Euclidean space this is the rotation to principal axes.

    Parameters
    ----------
    x : Tensor or ndarray, (..., points, dim), real
        Clouds in any units, or (rows, dim) with ``ptr`` or ``batch``. Integers become float64, with
        a warning; 16-bit types become float32.
    mask : Tensor, (..., points), bool, optional
        False for points to ignore; their coordinates become zero.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds.
    batch : Tensor, (rows,), int64, optional
        Cloud of each row, ascending, instead of ``ptr``; not for compiled programs.
    weights : Tensor, (..., points), optional
        Nonnegative masses, treated as constant; zero is the same as masked.
    group : {"O", "SO", None}
        Orthogonal group, where mirror images have the same embedding; rotations; or neither.
    sign : {"skew", "joint", "index"}
        Make the skewness along each axis positive; also use joint moments, with the remaining signs
        in ``frames`` of the result; or, for labelled points, use the first points that determine
        the axes, which is exact for every cloud but not permutation equivariant.
    scale : {"none", "rms", "max", "lambda1", "rms_dist"}
        σ: 1; root mean square or maximum of the distances from the centroid; root mean square of
        the first coordinate, or of distances between points, with weights as multiplicities.

    Raises
    ------
    ValueError
        For wrong shapes and choices, clouds without weight, and clouds that are not finite or, with
        ``fallback="error"``, flagged. Values are not checked in compiled programs.

    Warns
    -----
    UserWarning
        Once per process: for flagged clouds, integers, and clouds that look transposed.

    Equivariance
    ------------
    ``y`` is invariant under isometries of the group (similarities if scaled) and equivariant under
    permutations, up to rounding divided by the gap, for clouds that are not flagged. No embedding
    that keeps distances can do so for symmetric clouds: average over :func:`frames`.

    References
    ----------
    Torgerson, "Multidimensional scaling: I. Theory and method", 1952; Zhang et al., "Revisiting
    transformation invariant geometric deep learning", 2021.

    Examples
    --------
    >>> import torch
    >>> path = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
    >>> turned = path @ torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).double() + 5
    >>> torch.allclose(embed(turned).y, embed(path).y)
    True
    """
    check_choices(group=group, sign=sign, scale=scale)
    frames = None
    points = as_tensor(x, "points")
    with without_autocast(points.device.type):
        clouds = CloudRows.of(points, mask, ptr, weights, batch)
        aligned = align(clouds, group, scale, options)
        check_finite(aligned)
        if sign == "joint" and group is not None:
            aligned, frames = joint_signs(aligned)
        if sign == "index" and group is not None:
            aligned = labelled_axes(aligned, options)
        if options.fallback in ("frames", "anchor") and group is not None:
            frames = fallback_frames(aligned)
        if aligned.flagged or sign != "skew":
            report_flagged(aligned)
    return _result(aligned, frames)


def _result(aligned: AlignedClouds, frames: FrameSet | None) -> MDSResult:
    """Restore the batch axes of all results."""
    clouds = aligned.clouds
    return MDSResult(
        y=clouds.rows(aligned.y),
        frame=clouds.clouds(aligned.frame),
        centroid=clouds.clouds(aligned.centroid),
        scale=clouds.clouds(aligned.scale),
        spread=clouds.clouds(aligned.spread),
        margin=clouds.clouds(aligned.margin),
        gap=clouds.clouds(aligned.gap),
        null=clouds.clouds(aligned.null),
        ambiguous=clouds.clouds(aligned.ambiguous),
        degenerate=clouds.clouds(aligned.degenerate),
        group=aligned.group,
        frames=frames,
        ptr=clouds.ptr if clouds.ragged else None,
    )


def check_choices(*, group: str | None, sign: str, scale: str) -> None:
    """Raise ``ValueError`` for unknown options of :func:`embed`."""
    choices = {
        "group": (group, ("O", "SO", None)),
        "sign": (sign, ("skew", "joint", "index")),
        "scale": (scale, tuple(SCALES)),
    }
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")
