import json
from time import monotonic

import pytest

from tests.fuzz.run import CRASH, HANG, Tally, all_targets, describe, main, run_seed, summary, table
from tests.fuzz.run_worker import ACCEPTED, ANSWERED, POOR, REFUSED, fault_of

pytestmark = pytest.mark.full
PLANTED = "_planted"


@pytest.fixture(scope="module")
def tally() -> Tally:
    tally = Tally()
    run_seed(PLANTED, 3, monotonic() + 3000, tally)
    return tally


def test_everything_that_was_planted_is_found_described_and_counted(tally):
    assert [(f.kind, f.label) for f in tally.findings] == [
        (POOR, "another error"),
        (POOR, "a long message"),
        (POOR, "no message"),
        (POOR, "a path"),
        (POOR, "a place"),
        (ACCEPTED, "accepted"),
        (CRASH, "a signal"),
        (CRASH, "an exit"),
        (HANG, "a hang"),
    ]
    texts = {f.label: f.text for f in tally.findings}
    assert texts["another error"] == "KeyError, not expected: 'key'"
    assert texts["a long message"].startswith("ValueError of 500 characters: xxx")
    assert "SIGSEGV" in texts["a signal"]
    assert "ended with status 0" in texts["an exit"]
    assert texts["a hang"] == "longer than 3 s"
    assert f"again: python -m tests.fuzz --target {PLANTED} --seed 3 --case 8" in "\n".join(
        describe(tally.findings)
    )
    assert tally.answers[ANSWERED] == 3
    assert tally.answers[REFUSED] == 3  # one without memory
    assert tally.lost == 4  # three were found, the last was slow on a busy machine alone
    kept = json.loads(json.dumps(summary({PLANTED: tally})))
    assert kept["cases"] == 16
    assert [found["label"] for found in kept["findings"]] == [f.label for f in tally.findings]
    (_, row) = table({PLANTED: tally})
    assert row.split() == [PLANTED, "16", "3", "3", "9"]


def test_one_case_can_be_repeated_of_the_modules_that_yield_cases(capfd):
    assert main(["--target", PLANTED, "--case", "2"]) == 1
    shown = capfd.readouterr()
    assert "poor answer: KeyError" in shown.out
    assert "Traceback" in shown.err
    assert main(["--target", PLANTED, "--case", "1"]) == 0
    assert "ops" in all_targets()
    assert not {"case", "run", "run_worker", "test_run", PLANTED}.intersection(all_targets())
    for message in ("x must be (3,), got /data/x.ply:12", "see math.h: no"):
        assert fault_of(message) == ""
