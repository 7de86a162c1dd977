"""Settings of networks that must be positive."""

from __future__ import annotations

from collections.abc import Sequence


def check_numbers(dropout: float, **settings: int | Sequence[int]) -> None:
    """Refuse settings that would fail late.

    Parameters
    ----------
    dropout : float
        A share, less than 1.
    **settings : int or sequence of int
        Positive, and at least one number each but for ``hidden``.

    Raises
    ------
    ValueError
        Naming the setting.

    Examples
    --------
    >>> check_numbers(0.5, widths=(64, 0))
    Traceback (most recent call last):
        ...
    ValueError: widths must be positive, got (64, 0)
    """
    for name, value in settings.items():
        numbers = (value,) if isinstance(value, int) else tuple(value)
        if min(numbers, default=1 if name == "hidden" else 0) < 1:
            shown = value if isinstance(value, int) else numbers
            raise ValueError(f"{name} must be positive, got {shown}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
