"""Blocks of the page on engines run, where the engine is installed, and agree with ASE."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/howto/engines.md").read_text()
SETUP = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
ENGINES = dict(
    re.findall(r"^```{code-block} python\n:name: engine-(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
)
# A process of its own: libraries of engines stay loaded, and set up what others need otherwise.
CHECK = """
if "energy" in dir():
    now = atoms.copy()
    if "lmp" in dir():
        now.positions.flat = list(lmp.gather_atoms("x", 1, 3))
    now.calc = Calculator(model)
    assert abs(energy - now.get_potential_energy()) < 1e-6, (energy, now.get_potential_energy())
else:
    rows = [line.split() for line in open("run.energies") if line[0] != "#"]
    assert len(rows) == 11
    change, drift = (float(rows[-1][k]) - float(rows[0][k]) for k in (1, 2))
    assert abs(drift) < 0.005 * abs(change), rows  # of the conserved and the potential energy
"""


def test_every_engine_of_the_page_is_known():
    assert set(ENGINES) == {"lammps", "ipi", "openmm", "torch_sim", "metatomic"}


@pytest.mark.parametrize("name", ENGINES)
def test_blocks_of_the_page_run(name, tmp_path):
    if not find_spec(name):
        pytest.skip(f"{name} is not installed: make test-engines")
    folder = Path(sys.executable).parent  # of the program i-pi
    done = subprocess.run(
        [sys.executable, "-c", SETUP + ENGINES[name] + CHECK],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # a hundred times what it takes: an engine that waits for the potential
    )
    assert done.returncode == 0, done.stdout + done.stderr
