from itertools import islice

import pytest

from tests.fuzz import checkpoints, clouds, command_lines, files
from tests.fuzz.run_worker import ANSWERED, REFUSED, answer
from tests.tier import FULL, tier

KNOWN = 50  # files that are hostile for sure: fewer


@pytest.mark.parametrize("target", [checkpoints, files])
def test_seed_determines_the_cases(target):
    first, again, other = (
        [case.label for case in islice(target.cases(seed), 200)] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_hostile_checkpoints_are_refused():
    count = tier(50, 150)
    kinds = []
    for case in islice(checkpoints.cases(seed=0), count):
        kind, text = answer(case)
        assert kind in (ANSWERED, REFUSED), f"{case.label}: {text}"
        kinds.append(kind)
    assert kinds.count(REFUSED) > 2 * count / 3


@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_laws_of_clouds_hold_at_any_scale_and_offset(seed):
    for case in islice(clouds.cases(seed), tier(200, 1000)):
        kind, text = answer(case)
        assert kind in (ANSWERED, REFUSED), f"{case.label}: {text}"


def test_hostile_command_lines_end_with_a_message():
    for case in islice(command_lines.cases(seed=0), tier(8, 150)):
        case.call()


def test_damaged_files_are_read_or_refused():
    for case in islice(files.cases(0), KNOWN, KNOWN + tier(50, 150)):
        kind, text = answer(case)
        assert kind in (ANSWERED, REFUSED), f"{case.label}: {text}"
