"""Instructions of the inner loops of the channelwise product, on NEON and AVX2.

    python -m bench.instructions [--output bench/results/instructions.json]

Needs g++ and aarch64-linux-gnu-g++. Counts in the disassembly do not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from bench.recorder import REPOSITORY, Record, output_arguments

SOURCE = "csrc/kernels/cpu/channelwise_product.cpp"
FUNCTION = "path_forward<float>"
# Prefix of the tools, flags and numbers in a register.
SETS = {
    "neon": ("aarch64-linux-gnu-", (), 4),
    "avx2": ("", ("-mavx2", "-mfma"), 8),
}
JUMP = re.compile(r"(?:b(?:\.\w+)?|cbn?z|tbn?z|j\w+) .*?([0-9a-f]+) <")
MULTIPLY_ADD = re.compile(r"(?:fmla|vfmadd\w+)\s.*(?:\.4s|ymm)")
COMPONENTS = (1, 3, 5, 7, 9)


def disassemble(name: str) -> list[tuple[int, str]]:
    """Addresses and instructions of the forward pass."""
    prefix, flags, _ = SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "kernel.o")
        defined = f"-DEQUIGEO_HAS_{name.upper()}", f"-DEQUIGEO_TARGET_ISA={name}"
        options = ("-std=c++17", "-O3", "-fPIC", "-Icsrc", *flags, *defined)
        compiler = [f"{prefix}g++", *options, "-c", SOURCE, "-o", made]
        subprocess.run(compiler, cwd=REPOSITORY, check=True)
        command = [f"{prefix}objdump", "-dC", "--no-show-raw-insn", made]
        text = subprocess.check_output(command, text=True)
    (body,) = re.findall(rf"<[^\n]*{re.escape(FUNCTION)}[^\n]*>:\n(.*?)\n\n", text, re.DOTALL)
    found = re.findall(r"^\s*([0-9a-f]+):\t(.*)$", body, re.MULTILINE)
    return [(int(address, 16), " ".join(code.split())) for address, code in found]


def inner_loops(code: list[tuple[int, str]]) -> list[list[str]]:
    """Instructions of every loop without a loop inside."""
    place = {address: n for n, (address, _) in enumerate(code)}
    jumps = [(JUMP.match(text), n) for n, (_, text) in enumerate(code)]
    loops = [(place.get(int(j[1], 16), n + 1), n) for j, n in jumps if j is not None]
    loops = [(first, last) for first, last in loops if first <= last]
    inner = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return [[text for _, text in code[first : last + 1]] for first, last in inner]


def per_multiply_add(name: str) -> dict[int, float]:
    """Instructions per multiply-add of one channel, by the number of components."""
    loops = inner_loops(disassemble(name))
    sums = [(sum(bool(MULTIPLY_ADD.match(text)) for text in loop), len(loop)) for loop in loops]
    found = {}
    for size in COMPONENTS:  # the loop over as many registers of channels as fit
        most = max(n for n in (1, 2, 4) if n * size in dict(sums))
        instructions = min(length for number, length in sums if number == most * size)
        found[size] = instructions / (most * size * SETS[name][2])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    output_arguments(parser)
    record = Record(parser.parse_args().output)
    compilers = {
        name: subprocess.check_output([f"{prefix}g++", "--version"], text=True).splitlines()[0]
        for name, (prefix, _, _) in SETS.items()
    }
    found = {name: per_multiply_add(name) for name in SETS}
    ratio = {size: found["neon"][size] / found["avx2"][size] for size in COMPONENTS}
    print(json.dumps({**found, "ratio": ratio}, indent=1))
    record.write({"compilers": compilers, "instructions per multiply-add": found, "ratio": ratio})


if __name__ == "__main__":
    main()
