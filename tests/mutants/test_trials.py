from __future__ import annotations

import os
import time

from tests.mutants.trials import in_fork


def log_and_wait(log):
    log("first")
    log("second")
    time.sleep(1)
    return "noticed"


def test_a_trial_ends_in_its_own_time():
    assert in_fork(log_and_wait, [9, 9, 9]) == {"answer": "noticed", "last": "second"}
    assert in_fork(log_and_wait, [9, 0.1, 9])["answer"] == "noticed"
    ended = in_fork(log_and_wait, [9, 9, 0.1])
    assert ended["ended"] == "does not end"
    assert ended["last"] == "second"


def test_the_last_limit_is_that_of_all_that_follows():
    assert in_fork(log_and_wait, [9])["answer"] == "noticed"
    assert in_fork(log_and_wait, [0.1])["ended"] == "does not end"


def test_a_fork_that_dies_says_how():
    def die(log):
        log("first")
        os._exit(3)

    assert in_fork(die, [9]) == {"ended": "exit status 3", "errors": "", "last": "first"}
