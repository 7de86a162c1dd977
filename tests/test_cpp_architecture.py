"""Layering rules of the C++ sources: what includes what, and which header asks for the device."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.source import refuse

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

MAY_INCLUDE: dict[str, set[str]] = {
    "args": set(),
    "math": {"args"},
    "kernels/cpu": {"math", "args"},
    "kernels/cuda": {"math", "args"},
    "simulator": set(),
    "register": {"kernels/cpu", "kernels/cuda", "math", "args"},
    "tests": {"kernels/cpu", "kernels/cuda", "simulator", "math", "args"}
    | {"register/cuda/kept_memory.cpp", "register/cuda/loaded_tables.cpp"},  # without torch
}
# Angle brackets: the kernels of one instruction set must share no inline function with another, and
# what needs no PyTorch must compile without it.
MAY_INCLUDE_OF_OTHERS = {
    "args": r"stdint\.h",
    "math": r"stdint\.h",
    "kernels/cpu": r"stdint\.h|cstring",  # cstring in the choice of the instruction set
    # The sanitizer where the compiler has it on, to be told of scratch memory that is nobody's.
    "kernels/cuda": r"stdint\.h|cuda_\w+\.h|type_traits|sanitizer/asan_interface\.h",
    "simulator": r"(?!torch/).*",
    "register": r".*",
    "tests": r"(?!torch/).*",
}
GENERATED = {"schema_marker.h", "kernel_sources.h"}
# Words that plain C++ does not have, with which CUDA kernels would not compile for the simulator.
LAUNCHES = re.compile(r"<<<|>>>|__shared__|__constant__|cudaLaunch\w+")
ASKS_FOR_THE_DEVICE = {"csrc/register/device.h", "CMakeLists.txt", "Makefile"}


def read_sources(folder: Path) -> dict[str, str]:
    """Text of every source below a folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES
    }


SOURCES = read_sources(ROOT / "csrc")


def layer_of(name: str) -> str:
    """Layer that a file belongs to, or nothing."""
    return next((layer for layer in MAY_INCLUDE if name.startswith(layer + "/")), "")


def includes(text: str) -> Iterator[tuple[str, str]]:
    """Opening mark and name of each include."""
    yield from re.findall(r'^\s*#\s*include\s*([<"])([^">]+)[">]', text, re.MULTILINE)


def layer_violations(sources: dict[str, str]) -> list[str]:
    found = []
    for name, text in sources.items():
        layer = layer_of(name)
        if not layer:
            found.append(f"{name} is in no layer")
            continue
        for mark, target in includes(text):
            if mark == "<":
                if not re.fullmatch(MAY_INCLUDE_OF_OTHERS[layer], target):
                    found.append(f"{name}: {layer} may not include <{target}>")
            elif target not in GENERATED and resolved(name, target, sources) is None:
                found.append(f"{name} includes {target}, which does not exist")
            elif target not in GENERATED:
                other = layer_of(resolved(name, target, sources) or "")
                if not {other, target} & ({layer} | MAY_INCLUDE[layer]):
                    found.append(f"{name}: {layer} may not include {other}")
    return found


def resolved(name: str, target: str, sources: dict[str, str]) -> str | None:
    """File that an include means: from the root, or in the tests beside the file."""
    beside = f"{Path(name).parent}/{target}"
    return next((path for path in (target, beside) if path in sources), None)


def circles(sources: dict[str, str]) -> list[str]:
    """Chain of includes that comes back to its beginning."""
    graph = {
        name: {path for _, target in includes(text) if (path := resolved(name, target, sources))}
        for name, text in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def launching_sources(sources: dict[str, str]) -> set[str]:
    """Sources of kernels with what only launch.cuh may have."""
    code = {name: re.sub(r"//.*", "", text) for name, text in sources.items()}
    return {n for n, text in code.items() if n.startswith("kernels/") and LAUNCHES.search(text)}


def test_includes_follow_the_layers_without_circles():
    refuse([*layer_violations(SOURCES), *circles(SOURCES)])
    headers = [name for name in SOURCES if Path(name).suffix in {".h", ".cuh"}]
    assert len(headers) > 50
    assert not [name for name in headers if "#pragma once" not in SOURCES[name]]


def test_one_header_asks_for_the_device_and_one_launches():
    build = [ROOT / name for name in ("CMakeLists.txt", "Makefile", ".ci/run", "pyproject.toml")]
    texts = {path.relative_to(ROOT): path.read_text("utf-8") for path in build}
    texts |= {Path("csrc", name): text for name, text in SOURCES.items()}
    # The macro and the option of the CUDA library.
    assert {str(n) for n, text in texts.items() if "EQUIGEO_CUDA" in text} == ASKS_FOR_THE_DEVICE
    assert launching_sources(SOURCES) == {"kernels/cuda/launch.cuh"}
    line = "run<T><<<1, 32>>>(op);\n"
    assert "kernels/cuda/x.cu" in launching_sources({"kernels/cuda/x.cu": line})


BROKEN = {
    "args/wrong.h": ('"math/exp.h"', "args may not include math"),
    "math/wrong.h": ("<torch/csrc/stable/tensor.h>", "math may not include <torch/"),
    "math/missing.h": ('"math/none.h"', "which does not exist"),
    "kernels/cpu/wrong.h": ("<algorithm>", "may not include <algorithm>"),
    "kernels/cuda/wrong.cuh": ('"kernels/cpu/isa.h"', "not include kernels/cpu"),
    "simulator/wrong.h": ('"kernels/cuda/plan.h"', "may not include kernels/cuda"),
    "register/wrong.cpp": ('"tests/check.h"', "register may not include tests"),
    "tests/wrong.cpp": ('"register/tensors.h"', "tests may not include register"),
    "elsewhere/wrong.h": ('"math/exp.h"', "is in no layer"),
}


def test_broken_layers_are_found():
    assert {layer_of(name) for name in SOURCES} == set(MAY_INCLUDE)
    for name, (target, message) in BROKEN.items():
        (found,) = layer_violations(SOURCES | {name: f"#pragma once\n#  include {target}\n"})
        assert message in found
    changed = SOURCES | {"math/host_device.h": '#include "math/edges.h"\n'}
    assert any("math/edges.h" in circle for circle in circles(changed))
