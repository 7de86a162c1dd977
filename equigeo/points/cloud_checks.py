"""What is said about clouds of the wrong shape or type, where nothing or little can come out.

Shapes alone are looked at, so that nothing waits for a device and programs can be compiled.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor, is_integer
from equigeo.ops.runtime.torch_internals import values_readable

_warned: set[str] = set()

# Three points with so many coordinates are taken for so many points of space: clouds of fewer, and
# points of spaces of as many, are seldom meant.
_MANY = 8


def given_clouds(
    points: TensorLike, name: str = "points", *, dim: int | None = None, batched: bool = True
) -> Tensor:
    """Take clouds of floating coordinates, and refuse or doubt what is likely a mistake.

    Parameters
    ----------
    points : Tensor or ndarray, (B, P, C) or, not batched, (..., P, C), floating
        What the caller gave.
    name : str
        Of the argument.
    dim : int, optional
        Number of coordinates, where it is known.
    batched : bool
        Whether there is exactly one batch axis.

    Returns
    -------
    Tensor
        The same.

    Raises
    ------
    TypeError
        If it is no tensor and no array, or not floating.
    ValueError
        If there are no such axes. The message says if the last two are exchanged, and if one is
        missing because clouds stand one after another.

    Warns
    -----
    UserWarning
        Once, where three points of many coordinates look like the coordinates of many points.

    Examples
    --------
    >>> given_clouds(torch.zeros(2, 3, 50), dim=3)
    Traceback (most recent call last):
    ValueError: points must be (B, P, 3), got (2, 3, 50): exchange its last axes, points.mT
    """
    x = as_tensor(points, name)
    shape = tuple(x.shape)
    fits = x.ndim == 3 if batched else x.ndim >= 2
    if not fits or (dim is not None and shape[-1] != dim):
        wanted = f"({'B' if batched else '...'}, P, {'C' if dim is None else dim})"
        raise ValueError(f"{name} must be {wanted}, got {shape}{hint(shape, name, dim, batched)}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating, got {x.dtype}: use {name}.float()")
    if dim is None:
        doubt_axes(x, name)
    return x


def hint(shape: tuple[int, ...], name: str, dim: int | None, batched: bool = True) -> str:
    """Say what to do about a shape that does not fit, where that is known.

    Parameters
    ----------
    shape : tuple of int
        Of what was given.
    name : str
        Of the argument.
    dim : int, optional
        Number of coordinates.
    batched : bool
        Whether one batch axis is wanted.

    Returns
    -------
    str
        The end of a message; nothing where there is nothing to say.

    Examples
    --------
    >>> hint((50, 3), "points", 3)
    ': put clouds of a batch side by side, equigeo.points.pad_clouds, or give points[None]'
    """
    if dim is not None and len(shape) >= 2 and shape[-2] == dim != shape[-1]:
        return f": exchange its last axes, {name}.mT"
    if batched and len(shape) == 2:
        side = "put clouds of a batch side by side, equigeo.points.pad_clouds"
        return f": {side}, or give {name}[None]"
    return ""


def check_finite(x: Tensor, name: str, mask: Tensor | None = None) -> None:
    """Refuse coordinates that are not finite, where values can be read.

    Parameters
    ----------
    x : Tensor, (..., points, C)
        Coordinates.
    name : str
        Of the argument.
    mask : Tensor, (..., points), bool, optional
        Which points exist; others may hold anything.

    Raises
    ------
    ValueError
        If one is not.
    """
    if not values_readable(x):
        return
    finite = x.isfinite().all(-1)
    if not bool((finite if mask is None else finite | ~mask).all()):
        raise ValueError(f"{name} must be finite")


def scale_of(*clouds: Tensor, mask: Tensor | None = None) -> Tensor:
    """Power of two near the largest coordinates, to divide by, so that squares are in range.

    Parameters
    ----------
    *clouds : Tensor, (..., points, C)
        Clouds that are compared with one another; the first is that of the mask.
    mask : Tensor, (..., points), bool, optional
        Which points exist.

    Returns
    -------
    Tensor, (..., 1, 1)
        Positive, of the dtype of the first; one where all is zero or nothing is there.
    """
    first, *others = clouds
    first = first if mask is None else first.masked_fill(~mask[..., None], 0)
    largest = first.new_zeros(())
    for x in (first, *others):
        if x.shape[-2:].numel():
            largest = torch.maximum(largest, x.abs().amax((-2, -1), keepdim=True))
    power = torch.frexp(largest).exponent
    return torch.where(largest > 0, torch.ldexp(torch.ones_like(largest), power), 1)


def given_mask(mask: TensorLike | None, shape: tuple[int, ...]) -> Tensor | None:
    """Take a mask of points, and refuse anything else in its place.

    Parameters
    ----------
    mask : Tensor or ndarray, bool, optional
        What the caller gave.
    shape : tuple of int
        Of the points, coordinates left out.

    Returns
    -------
    Tensor, bool, or None
        The same.

    Raises
    ------
    TypeError
        If it is no tensor and no array.
    ValueError
        If it is not bool of that shape.

    Examples
    --------
    >>> given_mask(torch.tensor([0, 0, 1]), (3,))
    Traceback (most recent call last):
    ValueError: mask must be bool (3,), got torch.int64 (3,): a batch vector is none, see pad_clouds
    """
    if mask is None:
        return None
    found = as_tensor(mask, "mask")
    if tuple(found.shape) != tuple(shape) or found.dtype != torch.bool:
        numbers = found.dtype == torch.int64 and found.ndim == 1
        end = ": a batch vector is none, see pad_clouds" if numbers else ""
        raise ValueError(
            f"mask must be bool {tuple(shape)}, got {found.dtype} {tuple(found.shape)}{end}"
        )
    return found


def check_some_points(mask: Tensor | None) -> None:
    """Refuse masks (..., points) without a point, where values can be read."""
    if mask is not None and values_readable(mask) and not bool(mask.any(-1).all()):
        raise ValueError("every cloud must have a point, got one whose mask has none")


def doubt_axes(x: Tensor, name: str) -> None:
    """Warn, once, of three points of many coordinates.

    Parameters
    ----------
    x : Tensor, (..., points, coordinates)
        Clouds.
    name : str
        Of the argument.
    """
    if torch.compiler.is_compiling():  # lengths are symbols, which a comparison would pin down
        return
    points, coordinates = x.shape[-2:]
    if points == 3 and coordinates >= _MANY:
        warn_once(
            "axes",
            f"{name} of shape {tuple(x.shape)} are clouds of {points} points with {coordinates} "
            f"coordinates each; if they are {coordinates} points with {points} coordinates, "
            f"exchange the last axes: {name}.mT",
        )


def doubt_integers(x: Tensor, name: str) -> None:
    """Warn, once, of coordinates that are integers.

    Parameters
    ----------
    x : Tensor
        Clouds.
    name : str
        Of the argument.
    """
    if is_integer(x):
        warn_once(
            "integers",
            f"{name} of {x.dtype} are taken as torch.float64 and have no gradient; say so by "
            f"{name}.double() if integers are meant",
        )


def warn_once(key: str, text: str) -> None:
    """Warn the caller of a public function, once per process, and never while compiling.

    Parameters
    ----------
    key : str
        What is warned of.
    text : str
        The warning.
    """
    if key not in _warned and not torch.compiler.is_compiling():
        _warned.add(key)
        warnings.warn(text, UserWarning, stacklevel=4)
