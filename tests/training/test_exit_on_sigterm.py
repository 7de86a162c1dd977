from __future__ import annotations

import os
import signal
import threading

import pytest

from equigeo.training import exit_on_sigterm


def test_the_signal_becomes_an_exit_status():
    with pytest.raises(SystemExit) as caught, exit_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_program_stays():
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        with exit_on_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_other_threads_change_nothing():
    seen = []

    def run():
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
