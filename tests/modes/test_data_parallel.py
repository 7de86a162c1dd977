"""Layers in two processes that average their gradients."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from tests.modes.data_parallel import RANKS, layers

PATIENCE = 300.0


@pytest.mark.full  # the training loop averages over two processes in the fast tier
@pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this PyTorch was built without gloo",
)
def test_gradients_are_averages_over_two_processes(tmp_path):
    assert len(layers()) > 20
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    files = [tmp_path / f"{rank}.json" for rank in range(RANKS)]
    commands = [
        [sys.executable, "-m", "tests.modes.data_parallel", str(rank), str(port), str(file)]
        for rank, file in enumerate(files)
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(c, env=environment, stderr=subprocess.PIPE, text=True) for c in commands
    ]
    try:
        errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * RANKS, errors
    assert [json.loads(file.read_text()) for file in files] == [{}] * RANKS
