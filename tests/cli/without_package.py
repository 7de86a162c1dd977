"""The command line where a package is not installed."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from equigeo.cli import main
sys.exit(main(sys.argv[2:]))
"""


def without(package, *arguments):
    command = [sys.executable, "-c", _WITHOUT, package, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
