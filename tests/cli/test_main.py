from __future__ import annotations

import subprocess
import sys

import pytest

import equigeo
from equigeo.cli import main


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_module_runs_as_a_program():
    assert run("-m", "equigeo", "--version").stdout == f"equigeo {equigeo.__version__}\n"


_IMPORTED = """
import sys
from equigeo.cli import main
for words in (["--version"], ["--help"]):
    assert main(words) == 0
assert {"torch", "numpy", "scipy"}.isdisjoint(sys.modules)
assert main(["train", "--help"]) == 0
assert {"torch._dynamo", "lightning", "plotly"}.isdisjoint(sys.modules)
"""


def test_help_imports_only_what_it_shows():
    done = run("-c", _IMPORTED)
    assert (done.returncode, done.stderr) == (0, "")


VARIABLES = ("EQUIGEO_ISA", "EQUIGEO_RESULT_MEMORY", "EQUIGEO_KERNELS")
_WRONG = """
import os, sys
from equigeo.cli import main
for variable in sys.argv[1:]:
    os.environ[variable] = "foo\x1b"
    assert main(["presets"]) == 2
    del os.environ[variable]
"""


def test_wrong_environment_variable_is_one_message():
    # PyTorch warns that the second import registers ops again
    done = run("-W", "ignore", "-c", _WRONG, *VARIABLES)
    assert (done.returncode, done.stdout) == (0, "")
    for line, variable in zip(done.stderr.splitlines(), VARIABLES, strict=True):
        assert line.startswith(f"equigeo: error: {variable} must be ")
        assert "\x1b" not in line


def test_import_of_a_command_may_end_early(capsys, monkeypatch):
    def stop_with(error):
        def stop(name):
            raise error

        monkeypatch.setattr(sys.modules["equigeo.cli.main"], "import_module", stop)

    stop_with(KeyboardInterrupt())
    assert main(["presets"]) == 130
    assert capsys.readouterr().err == "\nequigeo: interrupted\n"
    stop_with(ImportError("no kernels\x1b"))
    assert main(["presets"]) == 2
    assert capsys.readouterr().err == "equigeo: error: no kernels\\x1b\n"
    with pytest.raises(ImportError, match="no kernels"):
        main(["--debug", "presets"])
