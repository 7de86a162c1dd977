from __future__ import annotations

import pytest

from equigeo.training import time_limit


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_is_no_time_is_refused(minutes):
    with pytest.raises(ValueError, match="positive number of minutes"):
        time_limit(minutes)
