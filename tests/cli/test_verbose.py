"""``--verbose``: what is used, what the library logs, and what it cost."""

from __future__ import annotations

import logging

import pytest

import equigeo
from equigeo.cli import main
from equigeo.cli.verbose import verbose


def test_versions_and_cost_are_said_beside_the_results(checkpoint, data, capsys):
    words = ["predict", str(checkpoint), str(data / "ball" / "test" / "T5.obj")]
    assert main(words) == 0
    plain = capsys.readouterr()
    assert main([*words, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert out == plain.out
    first, *_, last = err.splitlines()
    assert first.startswith(f"equigeo: {equigeo.__version__}, PyTorch ")
    assert " s with " in last


def test_what_the_library_logs_is_shown_on_one_line_and_only_then(capsys):
    log = logging.getLogger("equigeo.part")
    with verbose(True):
        log.debug("a\x1b[31m\nb")
    handlers, level = logging.getLogger("equigeo").handlers, logging.getLogger("equigeo").level
    assert r"equigeo: DEBUG: a\x1b[31m\nb" in capsys.readouterr().err
    with verbose(False):
        log.debug("silent")
    assert capsys.readouterr().err == ""
    assert logging.getLogger("equigeo").handlers == handlers
    assert logging.getLogger("equigeo").level == level


def test_it_ends_with_an_error_too(capsys):
    with pytest.raises(ValueError, match="x"), verbose(True):
        raise ValueError("x")
    assert " s with " in capsys.readouterr().err


def test_quiet_and_verbose_exclude_each_other(checkpoint, capsys):
    assert main(["evaluate", str(checkpoint), "--quiet", "--verbose"]) == 2
    assert "not allowed with" in capsys.readouterr().err
