from __future__ import annotations

import os
import subprocess
import sys

import pytest

import equigeo
from equigeo.cli import main


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "equigeo.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"equigeo {equigeo.__version__}\n"


@pytest.mark.parametrize("variable", ["EQUIGEO_ISA", "EQUIGEO_RESULT_MEMORY", "EQUIGEO_KERNELS"])
def test_a_wrong_environment_variable_is_one_message(variable):
    command = [sys.executable, "-m", "equigeo.cli", "presets"]
    environment = os.environ | {variable: "foo\x1b"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"equigeo: error: {variable} must be ")
    assert "\x1b" not in line


def test_an_interruption_while_modules_are_loaded_exits_with_130(capsys, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["equigeo.cli.main"], "_build_parser", interrupt)
    assert main(["presets"]) == 130
    assert capsys.readouterr().err == "\nequigeo: interrupted\n"
