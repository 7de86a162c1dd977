"""Advanced options of embeddings, besides group, signs and scale."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from equigeo._integers import convert_integers

Dependent = Literal["min_margin", "last"]
OddStatistic = Literal["cubic", "quadratic", "quintic", "largest"]
Gradient = Literal["exact", "detach"]
Fallback = Literal["warn", "error", "frames", "anchor", "ignore"]
NanPolicy = Literal["raise", "propagate"]


@dataclass(frozen=True)
class EmbedOptions:
    """Advanced options of embeddings.

    Parameters
    ----------
    translation : bool
        Whether translations are divided out. If not, clouds turn about the origin, and signs come
        from first moments, from third ones where those vanish.
    dependent : {"min_margin", "last"}
        Axis whose sign makes frames of ``SO`` right-handed: that of least skewness, which is the
        mirror axis of a nearly mirror-symmetric object, or the last, whose coordinate is then a
        pseudoscalar. A null axis comes before either.
    odd_stat : {"cubic", "quadratic", "quintic", "largest"}
        What is made positive along each axis: the sum of y^3, of y abs(y) or of y^5, or the entry
        of largest magnitude.
    null_tol : float
        An axis is null where points spread less than this many roundings of the largest
        coordinate.
    gap_tol : float, optional
        Two axes are degenerate where their eigenvalues differ by no more than this, relative to
        the first; by default 1e-8 in float64 and 1e-4 in float32.
    sign_tol : float, optional
        A sign is ambiguous where its margin is at most this; by default 1e-9 in float64 and 1e-5
        in float32. Both bounds rise to what rounding of the input can do.
    grad : {"exact", "detach"}
        Whether the gradient knows that axes turn with the points. If not, it is still equivariant
        and never singular, but not the gradient of the whole. Exact gradients grow as the inverse
        of the smallest relative gap between eigenvalues: to 1,300 times the other on a prism that
        is off isotropy by one part in a thousand, 7,000 times on one that is isotropic up to
        rounding. Clip them, detach them, or average over weighted frames.
    fallback : {"warn", "error", "frames", "anchor", "ignore"}
        What to do about flagged clouds: warn, once per process; refuse; or put sign frames or
        anchor frames into the result, for :func:`equigeo.mds.frame_average`.
    nan_policy : {"raise", "propagate"}
        Whether a cloud that is not finite is refused, or is NaN in the result.
    softness : float
        Margin from which on a soft frame has one sign alone; share of the largest area within
        which weighted frames count, at most 0.9.
    max_frames : int
        Anchor frames of a cloud are thinned out to this number, and no longer exact; weighted
        frames become at most so many, and stay exact unless too many areas tie.

    Raises
    ------
    ValueError
        If a choice is unknown, a tolerance negative, or a bound not positive.

    Examples
    --------
    >>> EmbedOptions(grad="detach").grad
    'detach'
    """

    translation: bool = True
    dependent: Dependent = "min_margin"
    odd_stat: OddStatistic = "cubic"
    null_tol: float = 8.0
    gap_tol: float | None = None
    sign_tol: float | None = None
    grad: Gradient = "exact"
    fallback: Fallback = "warn"
    nan_policy: NanPolicy = "raise"
    softness: float = 0.1
    max_frames: int = 256
    quadrature: int = 16

    def __post_init__(self) -> None:
        """Validate values."""
        convert_integers(self)
        hints = get_type_hints(type(self))
        for name in (f.name for f in fields(self)):
            value, choices = getattr(self, name), get_args(hints[name])
            if isinstance(value, str) and value not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {value!r}")
        for name in ("null_tol", "gap_tol", "sign_tol"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        counts = (self.softness, self.max_frames, self.quadrature)
        if not min(counts) > 0:
            names = "softness, max_frames and quadrature"
            raise ValueError(f"{names} must be positive, got {', '.join(map(str, counts))}")


DEFAULT = EmbedOptions()
