from __future__ import annotations

from fractions import Fraction

import pytest

from equigeo.nn.value_range import Range

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("allowed", "value", "message"),
    [
        (Range(1, 64), 0, "x must be at least 1, got 0"),
        (Range(0, 64), -1, "x must not be negative, got -1"),
        (Range(0, 64, above=True), 0, "x must be positive, got 0"),
        (Range(2, 64, above=True), 2, "x must be more than 2, got 2"),
        (Range(1, 64), 65, "x must be at most 64, got 65"),
        (Range(1, 64, below=True), 64, "x must be less than 64, got 64"),
        (Range(1, 64), 10**400, "x must be at most 64, got an integer of 1329 bits"),
        (Range(0.0, 1.0), 1.5, "x must be between 0 and 1, got 1.5"),
        (Range(0.0, 1.0), NAN, "x must be between 0 and 1, got nan"),
        (Range(0.0, 1.0, below=True), 1, "x must be at least 0 and less than 1, got 1"),
        (Range(0.0, 5.0, above=True), INF, "x must be more than 0 and at most 5, got inf"),
        (Range(0.0, 5.0, above=True), NAN, "x must be positive, got nan"),
        (Range(0.0, 5.0, above=True), -INF, "x must be positive, got -inf"),
        (Range(1, 64), NAN, "x must be at most 64, got nan"),
        (Range(1, 64), (3, 70), r"x must be at most 64, got \(3, 70\)"),
        (Range(1, 64), {"a": [3, 70]}, "x must be at most 64, got {'a': "),
        (Range(1, 64), [1] * 65, "x must have at most 64 entries, got 65"),
        (Range(1, 64), [[[[[1]]]]], "x must not be nested so deeply"),
    ],
)
def test_what_is_out_of_range_is_named(allowed, value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        allowed.check("x", value)


@pytest.mark.parametrize("value", [1, 64, 1.0, Fraction(3), None, True, "a", (), [1, [2]]])
def test_what_is_in_range_is_accepted(value):
    Range(1, 64).check("x", value)


def test_what_has_no_order_is_refused():
    for value in (1j, b"a", object()):
        with pytest.raises(TypeError, match="x must be a number"):
            Range(1, 64).check("x", value)
