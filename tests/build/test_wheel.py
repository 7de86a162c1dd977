"""What building the package gives, with and without PyTorch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = [name for name in ("cmake", "ninja", "g++") if shutil.which(name) is None]
needs_tools = pytest.mark.skipif(bool(TOOLS), reason=f"not on the PATH: {TOOLS}")


def run(*command: str | Path) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@needs_tools
def test_without_pytorch_there_is_a_warning_and_no_library(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    build = tmp_path / "build"
    output = run("cmake", "-S", ".", "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={python}")
    assert "built without compiled kernels" in " ".join(output.split())
    run("cmake", "--build", build)
    assert not list(build.rglob("*.so"))


@pytest.mark.slow
@needs_tools
def test_one_wheel_serves_every_python(tmp_path):
    pip = sys.executable, "-m", "pip", "wheel", "."
    options = "--no-build-isolation", "--no-deps", "-C", f"build-dir={tmp_path / 'build'}"
    run(*pip, *options, "-w", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "equigeo/ops/_kernels_cpu.so" in names
    assert "equigeo/py.typed" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"equigeo"}
