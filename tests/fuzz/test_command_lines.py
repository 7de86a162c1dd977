from itertools import islice

from tests.fuzz.command_lines import cases
from tests.tier import FULL


def test_hostile_command_lines_end_with_a_message():
    for case in islice(cases(seed=0), 150 if FULL else 20):
        case.call()
