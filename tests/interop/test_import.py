"""Interoperation is imported without the libraries it meets."""

import subprocess
import sys


def test_no_optional_library_is_needed_or_loaded():
    libraries = ["cuequivariance", "cuequivariance_torch", "torch_geometric", "e3nn"]
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({libraries}))\n"
        "import equigeo.interop, equigeo.interop.cuequivariance, equigeo.interop.pyg\n"
        "print(equigeo.interop.sort_irreps('0e+0o')[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1x0o+1x0e"
