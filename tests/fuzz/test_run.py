import json
from time import monotonic

import pytest

from tests.fuzz.run import (
    CRASH,
    HANG,
    Tally,
    all_targets,
    describe,
    main,
    run_seed,
    summary,
    table,
)
from tests.fuzz.run_worker import ACCEPTED, ANSWERED, POOR, REFUSED, fault_of

pytestmark = pytest.mark.full
PLANTED = "_planted"


@pytest.fixture(scope="module")
def tally() -> Tally:
    tally = Tally()
    run_seed(PLANTED, 3, monotonic() + 3000, tally)
    return tally


def test_everything_that_was_planted_is_found_once(tally):
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


def test_what_was_found_is_described(tally):
    texts = {f.label: f.text for f in tally.findings}
    assert texts["another error"] == "KeyError, not expected: 'key'"
    assert texts["a long message"].startswith("ValueError of 500 characters: xxx")
    assert "SIGSEGV" in texts["a signal"]
    assert "ended with status 0" in texts["an exit"]
    assert texts["a hang"] == "longer than 0.5 s"
    assert f"again: python -m tests.fuzz --target {PLANTED} --seed 3 --case 8" in "\n".join(
        describe(tally.findings)
    )


def test_all_cases_are_counted(tally):
    assert tally.answers[ANSWERED] == 3
    assert tally.answers[REFUSED] == 3  # one without memory
    assert tally.lost == 4  # three were found, the last was slow on a busy machine alone
    (_, row) = table({PLANTED: [tally]})
    assert row.split() == [PLANTED, "16", "3", "3", "9"]


def test_summary_has_counts_and_findings(tally, tmp_path):
    kept = json.loads(json.dumps(summary({PLANTED: [tally]})))
    assert kept["cases"] == 16
    assert kept["answers by target"][PLANTED][ANSWERED] == 3
    assert [found["label"] for found in kept["findings"]] == [f.label for f in tally.findings]
    assert kept["findings"][-1]["again"].endswith("--seed 3 --case 12")
    output = tmp_path / "fuzz.json"
    assert main(["--target", PLANTED, "--minutes", "0", "--output", str(output)]) == 0
    assert json.loads(output.read_text())["answers by target"] == {PLANTED: {}}


def test_like_findings_are_described_once(tally):
    lines = [*describe([f for f in tally.findings if f.label == "a hang"] * 3)]
    assert len(lines) == 3
    assert lines[0] == f"hang (3 times), {PLANTED}: a hang"


def test_one_case_can_be_repeated(capfd):
    assert main(["--target", PLANTED, "--case", "2"]) == 1
    shown = capfd.readouterr()
    assert "poor answer: KeyError" in shown.out
    assert "Traceback" in shown.err
    assert main(["--target", PLANTED, "--case", "1"]) == 0


def test_targets_are_the_modules_that_yield_cases():
    assert "ops" in all_targets()
    assert not {"case", "run", "run_worker", "test_run", PLANTED}.intersection(all_targets())
    for message in ("x must be (3,), got /data/x.ply:12", "see math.h: no"):
        assert fault_of(message) == ""
