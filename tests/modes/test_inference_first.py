from __future__ import annotations

import subprocess
import sys


def test_layers_train_in_a_process_that_began_with_inference():
    run = subprocess.run(
        [sys.executable, "-m", "tests.modes.inference_first"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
