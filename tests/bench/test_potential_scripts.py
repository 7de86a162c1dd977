"""What ``bench.potentials`` trains, and which records it keeps."""

import json
import sys

import pytest
import torch

from bench import potential_gaunt_methods as bench
from bench import potentials
from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig
from equigeo.tensor_products import GauntTensorProduct
from equigeo.testing import tolerance
from tests.tasks.potential.frames import write


def test_a_run_is_recorded_once_by_its_settings(tmp_path, monkeypatch):
    write(tmp_path / "rmd17", train=60)
    output = tmp_path / "results.json"
    words = [
        "potentials.py", "--data", tmp_path, "--set", "ethanol", "--minutes", "0.01", "--threads",
        "1", "--channels", "4", "--lmax-edge", "1", "--work", tmp_path / "work", "--output", output,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    potentials.main()
    with pytest.raises(SystemExit, match=r"results\.json exists"):
        potentials.main()
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--resume"])
    potentials.main()
    (run,) = json.loads(output.read_text())["runs"]
    assert {"command", "circumstances", "threads", "parameters", "history"} <= run.keys()
    assert run["errors"]["test"]["frames"] == 6
    assert run["seconds"] >= 0.6
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--resume", "--seed", "1"])
    potentials.main()
    assert len(json.loads(output.read_text())["runs"]) == 2


def products(model):
    return [layer for layer in model.modules() if isinstance(layer, GauntTensorProduct)]


@pytest.mark.parametrize("product", ["gaunt", "gaunt+curl"])
@pytest.mark.parametrize("method", bench.METHODS)
def test_models_of_all_methods_are_one_function(product, method):
    torch.manual_seed(0)
    config = PotentialConfig((1, 6), channels=4, lmax_edge=2, product=product, node="gaunt")
    model = MessagePassingPotential(config).double().eval()
    other = bench.by_method(model, method)
    positions = torch.randn(5, 3, dtype=torch.float64)
    atoms = (torch.tensor([6, 1, 1, 1, 1]), positions, None, False)
    batch = AtomicBatch.from_systems([atoms], config.cutoff, dtype=torch.float64)
    found, expected = (each(batch, forces=True) for each in (other, model))
    size = expected.forces.abs().max()
    bounds = tolerance(torch.float64, terms=100)
    torch.testing.assert_close(found.forces / size, expected.forces / size, **bounds)
    changed, kept = products(other), products(model)
    assert len(changed) == len(kept) >= 6  # of messages of two layers, and two powers in each
    wanted = "grid" if method == bench.IN_PYTORCH else method
    assert {layer.method for layer in changed} == {wanted}
    assert {layer.method for layer in kept} == {"grid"}
    in_pytorch = {isinstance(layer.body, bench.GridInPyTorch) for layer in changed}
    assert in_pytorch == {method == bench.IN_PYTORCH}
    parities = [[layer.irreps_in1, layer.irreps_out] for layer in kept]
    assert [[layer.irreps_in1, layer.irreps_out] for layer in changed] == parities


def test_other_results_are_refused(tmp_path, monkeypatch):
    write(tmp_path / "rmd17", train=60)
    monkeypatch.setattr(bench, "SAME", 0.0)
    with pytest.raises(SystemExit, match="must agree to 0"):
        bench.measure(tmp_path, 1, "gaunt", 1)
