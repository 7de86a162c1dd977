"""Importing the package is cheap and asks for nothing that is optional."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPTIONAL = [
    "lightning",
    "plotly",
    "platformdirs",
    "torch_geometric",
    "torch_cluster",
    "cuequivariance",
    "cuequivariance_torch",
    "matplotlib",
]
CORE = ["equigeo", *(f"equigeo.{room}" for room in ("groups", "reps", "ops", "graphs", "mesh"))]


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("module", [*CORE, "equigeo.testing"])
def test_core_imports_without_optional_packages(module):
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({OPTIONAL}))\nimport {module}"
    done = run(blocked)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_import_leaves_optional_packages_and_the_gpu_alone():
    done = run(
        f"import sys, torch\nbefore = set(sys.modules)\nimport {', '.join(CORE)}\n"
        f"loaded = (set(sys.modules) - before) & set({OPTIONAL})\n"
        "print(sorted(loaded), torch.cuda.is_initialized())"
    )
    assert done.stdout.strip() == "[] False", done.stdout + done.stderr


def test_import_changes_no_global_state_of_torch():
    done = run(
        "import torch\n"
        "state = lambda: (torch.get_default_dtype(), torch.get_num_threads(),"
        " torch.is_grad_enabled(), torch.initial_seed())\n"
        f"before = state()\nimport {', '.join(CORE)}\nprint(before == state())"
    )
    assert done.stdout.strip() == "True", done.stdout + done.stderr


def test_blocking_a_package_works():
    assert run("import sys\nsys.modules['lightning'] = None\nimport lightning").returncode == 1
