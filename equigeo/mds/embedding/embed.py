"""Coordinates that no rigid motion changes and that keep all distances."""

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

    For points of Euclidean space that scaling is the rotation to principal axes, whose scatter
    matrix has the size of the space, not of the cloud. A network of any kind on top is invariant,
    and equivariant under permutations where it was.

    Parameters
    ----------
    x : Tensor or ndarray, (..., points, dim), real
        Clouds in any units, or (rows, dim) with ``ptr`` or ``batch``. Integers become float64,
        with a warning, types of 16 bits float32; sums are float64 in any case.
    mask : Tensor, (..., points), bool, optional
        Which points there are; coordinates of the others are ignored and become zero.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds, as in PyTorch Geometric.
    batch : Tensor, (rows,), int64, optional
        Number of the cloud of each row instead, ascending; a number without rows is an empty cloud.
        Programs to be compiled take ``ptr``: here the number of clouds is read from the values.
    weights : Tensor, (..., points), optional
        Mass or area of each point, not negative; zero is as masked. Constant.
    group : {"O", "SO", None}
        Rotations with reflections, where a cloud and its mirror image have one embedding; proper
        rotations; or none.
    sign : {"skew", "joint", "index"}
        Make the skewness along each axis positive; or take signs from joint moments too, which
        settles all that moments can: ``frames`` of the result has the signs that are left; or,
        for points with names, let the first ones decide, which is exact for every cloud but not
        equivariant under permutations.
    scale : {"none", "rms", "max", "lambda1", "rms_dist"}
        What σ is: 1, the root mean square of distances from the centroid, their maximum, the root
        mean square of the first coordinate, or of distances between two points, of which weights
        count copies.
    options : EmbedOptions
        Translations, tolerances, gradients, and what to do about symmetric or broken clouds.

    Returns
    -------
    MDSResult
        Coordinates, frames and flags.

    Raises
    ------
    TypeError
        If a dtype is wrong; complex points are.
    ValueError
        If shapes do not fit together, a choice is unknown, a weight is negative, mask and weights
        leave no point of a cloud, ``batch`` is not sorted, or a cloud is not finite or, with
        ``fallback="error"``, flagged. Values are not checked while compiling.

    Warns
    -----
    UserWarning
        Once per process: of flagged clouds, of integers, and of three points with eight coordinates
        or more, which look like the coordinates of as many points.

    Equivariance
    ------------
    ``y`` is invariant under isometries of the group and, scaled, under similarities; it is
    equivariant under permutations. That holds up to rounding over gap for clouds that are not
    flagged. No embedding of distinct points that keeps distances can do so for a cloud with a
    symmetry: for these, average over :func:`frames`.

    References
    ----------
    Torgerson, "Multidimensional scaling: I. Theory and method", 1952; Zhang et al., "Revisiting
    transformation invariant geometric deep learning", 2021.

    Examples
    --------
    >>> import torch
    >>> path = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
    >>> y = embed(path).y
    >>> turned = path @ torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).double() + 5
    >>> torch.allclose(embed(turned).y, y)
    True
    >>> torch.allclose(torch.cdist(y, y), torch.cdist(path, path))
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
