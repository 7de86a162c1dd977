"""The library with all mistakes, built once, and those that need a build of their own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.sources import KERNELS, ROOT, Mutant
from tests.mutants.switches import configure, run, write_sources
from tests.ops.run_simulated import CHECKS

LIBRARY = "_kernels_simulated.so"
# The others are left out where one is made a constant, for the compiler to see that.
NEVER = """
namespace equigeo::mutants {

inline __attribute__((always_inline)) bool never(int) { return false; }

}  // namespace equigeo::mutants
"""


class Workshop:
    """Sources and builds in a folder, made again only as far as sources have changed."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.build = folder / "tree", folder / "build"

    def make(self, found: Mapping[int, Mutant], jobs: int) -> None:
        """Build the libraries, one for each kind of checks."""
        write_sources(self.tree, found)
        configure(self.tree, self.build, "-DEQUIGEO_SIMULATED=ON")
        targets = [f"simulated_{checks}" for checks in CHECKS]
        command = ["cmake", "--build", self.build, "--parallel", str(jobs), "--target", *targets]
        if error := run(command):
            raise RuntimeError(f"the sources with mistakes do not build:\n{error}")

    def folder(self, checks: str) -> Path:
        return self.build / checks

    def make_constant(self, number: int, mutant: Mutant, checks: str) -> tuple[Path, str]:
        """Compile a file again; the folder of the library, and what the compiler refuses."""
        compiled = self.compile_command(mutant, checks)
        target = compiled["output"]
        folder = self.build / f"{checks}-{number}"
        folder.mkdir(exist_ok=True)
        own = str(folder / "mutant.o")
        compile_own = compiled["command"].replace(f"-o {target} ", f"-o {own} ")
        never = folder / "never.h"
        never.write_text(NEVER)
        compile_own += f" -include {never} '-Dchosen(number)=never(number)'"
        error = shell(f"{compile_own} -DEQUIGEO_CONSTANT_MUTANT={number} -w", self.build)
        link = self.link_command(checks).replace(target, own)
        link = link.replace(f"-o {checks}/{LIBRARY}", f"-o {folder / LIBRARY}")
        return folder, error or shell(link, self.build)

    def compile_command(self, mutant: Mutant, checks: str) -> dict[str, str]:
        """How a file is compiled, or one that includes it, and to which object."""
        source = compiled_with(mutant.file)
        commands = json.loads((self.build / "compile_commands.json").read_text())
        places = (f"cuda_{checks}.dir", f"/{source}")
        found: dict[str, str] = next(
            c for c in commands if places[0] in c["command"] and c["file"].endswith(places[1])
        )
        words = found["command"].split()
        return {**found, "output": words[words.index("-o") + 1]}

    def link_command(self, checks: str) -> str:
        command = ["ninja", "-C", str(self.build), "-t", "commands", f"simulated_{checks}"]
        return subprocess.check_output(command, text=True).splitlines()[-1]


def compiled_with(file: str) -> str:
    """Name of the first source that is a file or includes it, by way of others too."""
    sources = sorted((ROOT / KERNELS).glob("*.cu"))
    return next(path.name for path in sources if Path(file).name in included(path, set()))


def included(path: Path, seen: set[str]) -> set[str]:
    """Names of a file of kernels and of all that it includes."""
    if path.name not in seen:
        seen.add(path.name)
        for name in re.findall(r'#include "kernels/cuda/([^"]+)"', path.read_text()):
            included(path.parent / name, seen)
    return seen


def shell(command: str, folder: Path) -> str:
    return run(["bash", "-c", command], folder)
