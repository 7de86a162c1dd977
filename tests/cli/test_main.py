from __future__ import annotations

import subprocess
import sys

import equigeo


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "equigeo.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"equigeo {equigeo.__version__}\n"
