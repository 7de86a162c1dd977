"""Importing is cheap and asks for nothing optional; packages show public names only."""

import subprocess
import sys

import scipy

import equigeo
from tests.architecture.source import Module, refuse, the_package
from tests.wrong_inputs import refused

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
# Imported when something of them is first used: `import scipy` imports none of its packages.
SLOW = ["trimesh", "e3nn", *(f"scipy.{name}" for name in scipy.__all__)]
CORE = ["equigeo", *(f"equigeo.{name}" for name in ("groups", "reps", "ops", "graphs", "mesh"))]
PACKAGES = sorted({module.package for module in the_package().values()} - {"", "_core"})
PROGRAMS = {"examples"}  # started with `python -m`; its modules are its names


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False
    )


def test_core_imports_without_optional_packages_and_packages_are_attributes():
    names = [f"equigeo.{name}.__name__" for name in ("points", "affine", "tasks")]
    done = run(
        f"import sys\nsys.modules.update(dict.fromkeys({OPTIONAL}))\n"
        f"import {', '.join(CORE)}, equigeo.testing\nprint({', '.join(names)})"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [name.removesuffix(".__name__") for name in names]


def test_import_loads_no_slow_library_and_changes_no_state_of_torch():
    packages = [f"equigeo.{name}" for name in PACKAGES if name not in {*PROGRAMS, "report"}]
    done = run(
        "import sys, torch, scipy\n"
        "state = lambda: (torch.get_default_dtype(), torch.get_num_threads(),"
        " torch.is_grad_enabled(), torch.initial_seed())\n"
        f"modules, before = set(sys.modules), state()\nimport {', '.join(packages)}\n"
        "after, loaded = state(), set(sys.modules) - modules\n"
        f"slow = loaded & set({[*OPTIONAL, *SLOW]})\n"
        "print(sorted(slow), torch.cuda.is_initialized(), before == after)\n"
        "import scipy.spatial\n"
        "print('scipy.spatial' in loaded, 'scipy.spatial' in set(sys.modules) - modules)"
    )
    assert done.stdout.splitlines() == ["[] False True", "False True"], done.stdout + done.stderr


def test_root_names_every_package_and_packages_list_their_names():
    for name in PACKAGES:
        assert getattr(equigeo, name).__name__ == f"equigeo.{name}"
    assert dir(equigeo) == sorted(["__version__", "kernels_info", *PACKAGES])
    refused("no attribute 'attic'", getattr, equigeo, "attic", error=AttributeError)
    listed = {*with_public_names(the_package()), "equigeo.examples"}
    refuse(name for name in PACKAGES if f"equigeo.{name}" not in listed)


def with_public_names(modules: dict[str, Module]) -> list[str]:
    """Packages that list their names."""
    return [name for name, m in modules.items() if m.is_package and "\n__all__" in m.source]


def test_packages_show_public_names_only():
    modules = [m.name for m in the_package().values() if m.package not in PROGRAMS]
    done = run(
        "import importlib, sys\n"
        f"for name in {[m for m in modules if not m.endswith('__main__')]}:\n"
        "    importlib.import_module(name)\n"
        f"for name in {with_public_names(the_package())}:\n"
        "    package = sys.modules[name]\n"
        "    if set(dir(package)) != set(package.__all__):\n"
        "        print(name, sorted(set(dir(package)) ^ set(package.__all__)))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
