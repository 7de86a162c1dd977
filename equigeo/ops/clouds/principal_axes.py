"""Coordinates of clouds of points along their principal axes, in one pass over each cloud."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.clouds.axis_rules import ScaleRule, SignRule
from equigeo.ops.clouds.principal_axes_backward import principal_axes_backward
from equigeo.ops.clouds.principal_axes_nd import principal_axes_nd
from equigeo.ops.clouds.principal_axes_reference import (
    RESULTS,
    Axes,
    backward_by,
    batch_clouds,
    fake_axes,
    principal_axes_reference,
)
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_device, check_dtype, check_features, check_index
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "principal_axes(Tensor x, Tensor ptr, Tensor? weight, bool center, int signs, int scale, "
    "float null_tol, float smoothing) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


@computes_in_float32
def principal_axes(
    x: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    center: bool,
    signs: int,
    scale: int,
    null_tol: float,
    smoothing: float,
) -> Axes:
    r"""Rotate each cloud to its principal axes (Torgerson 1952).

    .. math:: y_i = (x_i - c)\, F / \sigma, \qquad
              \sum_i w_i (x_i - c)(x_i - c)^T = F\, \mathrm{diag}(s^2)\, F^T

    with descending spreads :math:`s`. Means and scatter matrices are accumulated and diagonalised
    in float64 for every dtype. The sign of each axis makes its skewness
    :math:`m_k = \sum_i w_i y_{ik}^3 / \sum_i w_i |y_{ik}|^3` positive. ``y`` is invariant under
    isometries and, scaled, similarities, wherever squared spreads differ and no skewness vanishes;
    ``frame`` turns with the points.

    Parameters
    ----------
    x : Tensor, (points, dim)
        Points, cloud by cloud; dim at least 1.
    ptr : Tensor, (clouds + 1,), int64
        Offsets of the clouds, ascending from 0 to ``points``.
    weight : Tensor, (points,), dtype of ``x``, optional
        Nonnegative, by default ones, without gradient. Results of points of weight zero are zero.
    center : bool
        Whether c is the weighted mean; else the origin.
    signs : SignRule or int
        Rule for the signs of axes. A null axis is the first to be turned for a right-handed frame.
    scale : ScaleRule or int
        What points are divided by.
    null_tol : float
        An axis is null where the root mean square of coordinates along it is at most this times
        the largest magnitude of a coordinate of the cloud; coordinates along it are exactly zero.
    smoothing : float
        The gradient has :math:`\Delta / (\Delta^2 + \eta^2)` for :math:`1 / \Delta`, differences
        of squared spreads relative to the first; infinity omits the rotation of axes.

    Returns
    -------
    y : Tensor, (points, dim)
        Coordinates.
    frame : Tensor, (clouds, dim, dim)
        Orthogonal; axes are columns. The identity where every axis is null.
    centroid : Tensor, (clouds, dim)
        c, zero for a cloud without weight.
    spread : Tensor, (clouds, dim)
        s, root of the sum of squares along each axis before scaling; zero for null axes.
    scale : Tensor, (clouds, 1)
        σ, one for no scaling; zero where nothing spreads, and points are then not divided.
    margin : Tensor, (clouds, dim)
        m, negative only for an axis that makes a frame right-handed; not differentiated.

    All results of a cloud that is not finite are NaN.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, 9.0]])
    >>> y, *_ = principal_axes(x, torch.tensor([0, 3]), None, True, 1, 0, 1e-6, 1e-6)
    >>> y.tolist()
    [[-4.0, 0.0], [-1.0, 0.0], [5.0, 0.0]]
    """
    check_features("x", x, ("points", "dim"))
    check_index("ptr", ptr, at_least=1)
    check_device(x=x, ptr=ptr)
    if x.shape[1] < 1:
        raise ValueError("x must have at least one component, got none")
    if weight is not None:
        check_features("weight", weight, ("points",))
        check_device(x=x, weight=weight)
        check_dtype("weight", weight, "x", x)
        if weight.shape[0] != x.shape[0]:
            raise ValueError(f"weight must be ({x.shape[0]},), got {tuple(weight.shape)}")
    for name, value, last in (("signs", signs, SignRule.LEAST), ("scale", scale, ScaleRule.PAIRS)):
        if not 0 <= value <= last:
            raise ValueError(f"{name} must be from 0 to {last:d}, got {value}")
    # Kernels are written for up to three dimensions.
    op = _op if x.shape[1] <= 3 else principal_axes_nd
    return op(x, ptr, weight, center, int(signs), int(scale), null_tol, smoothing)


_op = declare(
    SCHEMA,
    reference=principal_axes_reference,
    fake=fake_axes,
    backward=backward_by(principal_axes_backward),
    results=RESULTS,
    constant_results=("margin",),
    batch=batch_clouds,
)
