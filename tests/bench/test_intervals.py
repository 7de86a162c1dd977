import numpy as np
import pytest

from bench.intervals import of_ratio

ROUNDING = 1e-12  # a few operations in float64


def test_ratio_of_interleaved_rounds_is_independent_of_load():
    load = np.random.default_rng(2).uniform(1, 3, 9)
    assert of_ratio((5 * load).tolist(), load.tolist()) == pytest.approx((5, 5), rel=ROUNDING)
    low, high = of_ratio((5 * load).tolist(), load[::-1].tolist())
    assert high / low > 1.1
    with pytest.raises(ValueError, match="interleaved, got 2 and 3"):
        of_ratio([1.0, 2.0], [1.0, 2.0, 3.0])
