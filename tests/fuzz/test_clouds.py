from itertools import islice

import pytest

from tests.fuzz.clouds import cases
from tests.fuzz.run_worker import ANSWERED, REFUSED, answer
from tests.tier import FULL


@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_laws_hold_at_any_scale_and_offset(seed):
    for case in islice(cases(seed), 1000 if FULL else 200):
        kind, text = answer(case)
        assert kind in (ANSWERED, REFUSED), f"{case.label}: {text}"
