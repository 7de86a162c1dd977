"""Checkpoints that no run has written are refused, quickly and in one sentence, by every task."""

import copy
import itertools
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from equigeo.tasks import TASKS
from equigeo.tasks.common import mesh_data
from equigeo.tasks.potential import data
from equigeo.training import Checkpoint, CheckpointError, checkpoint
from tests.tasks.tiny_checkpoints import tiny_checkpoints
from tests.tier import FULL

KINDS = ("mesh", "affnist", "affnist cnn", "pointcloud affine", "pointcloud mds",
         "pointcloud plain", "tsp", "potential", "dynamics")  # fmt: skip
FIELDS = ("task", "config", "state", "training", "novelty")
SECONDS = 5.0  # of the processor; a call takes about 0.01
LONGEST = 400  # characters of a message, without the path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    found = tiny_checkpoints()
    assert tuple(found) == KINDS
    for content in found.values():  # the first call of a model loads and caches things
        load_from(tmp_path_factory.mktemp("first"), content)
    return found


def load_from(folder, content: Checkpoint | dict[str, Any]):
    path = folder / "model.ckpt"
    if isinstance(content, Checkpoint):
        content = contents_of(content)
    torch.save(content, path)
    (task,) = (task for task in TASKS if task.name == content["task"])
    return task.trained_type.load(path)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def load(tmp_path):
    return partial(load_from, tmp_path)


@pytest.fixture
def refused(load, tmp_path):
    def refused(content: Checkpoint | dict[str, Any], what: object) -> str:
        started = time.process_time()
        try:
            load(content)
        except CheckpointError as error:
            message = str(error).replace(str(tmp_path), "")
            assert len(message) <= LONGEST, (what, message)
            assert time.process_time() - started < SECONDS, what
            return message
        pytest.fail(f"accepted: {what}")

    return refused


def contents_of(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"format": "equigeo/1"} | copy.deepcopy(
        {name: getattr(checkpoint, name) for name in FIELDS}
    )


def test_the_tiny_checkpoints_are_valid(kind, checkpoints, load):
    trained = load(checkpoints[kind])
    assert trained.task == checkpoints[kind].task
    assert trained.epochs_done == 1


def leaves(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to what lies in nested dictionaries and lists, and is neither or deep."""
    if isinstance(values, (dict, list)) and len(path) < 6:
        for key in values if isinstance(values, dict) else range(len(values)):
            yield from leaves(values[key], (*path, key))
    else:
        yield path


def put(values: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The value of before."""
    *outer, last = path
    for key in outer:
        values = values[key]
    old, values[last] = values[last], value
    return old


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
SHARED: list[Any] = []  # of 2^60 leaves, if one were to look at all of them
for _ in range(60):
    SHARED = [SHARED, SHARED]
NUMBERS = itertools.cycle(
    [-(10**30), 10**5000, float("nan"), float("inf"), 1e300, "wide", [[[1]]], CYCLE, SHARED,
     {"a": 1}]
)  # fmt: skip
NAMES = itertools.cycle([3, -1.5, [], ["a"] * 10**4, True, "long" * 10**6])
FLAGS = itertools.cycle(["yes", 2, 0.5, None, []])
FREE = {  # any short text
    *(
        ("train", name)
        for name in (
            "data",
            "subset",
            "energy_key",
            "forces_key",
            "stress_key",
            "start_from",
            "replay",
        )
    ),
    ("version",),
}


def hostile(path: tuple[Any, ...], value: Any) -> Iterator[Any]:
    """A few values that a field must not have; fields take turns with the others."""
    if isinstance(value, bool):
        yield next(FLAGS)
    elif isinstance(value, (int, float)) or value is None:
        yield from (-1, 10**30, next(NUMBERS), next(NUMBERS))
    else:
        yield next(NAMES)
        if path not in FREE and path[0] != "classes":
            yield "\x1b[31mred"


def test_configurations_out_of_range_are_refused(kind, checkpoints, refused):
    content = contents_of(checkpoints[kind])
    paths = list(leaves(content["config"]))
    assert len(paths) > 20
    for number, path in enumerate(paths):
        old = put(content["config"], path, None)
        values = list(hostile(path, old))
        for value in values if FULL else [values[number % len(values)]]:
            put(content["config"], path, value)
            refused(content, (path, str(type(value))))
        put(content["config"], path, old)


def test_names_that_are_missing_or_too_many_are_refused(kind, checkpoints, refused):
    for part in ("config", "train", "model"):
        content = contents_of(checkpoints[kind])
        values = content["config"] if part == "config" else content["config"][part]
        values["surplus"] = 1
        if part != "config":
            message = refused(content, f"surplus in {part}")
            assert "does not fit this version's " in message
        del values["surplus"]
        if part != "model":  # whose fields have defaults
            # without those that earlier versions lack
            earlier = {"nodes": 1, **mesh_data.UNKNOWN_EARLIER, **data.UNKNOWN_EARLIER}
            for name in values.keys() - earlier.keys():
                kept = values.pop(name)
                refused(content, f"no {name} in {part}")
                values[name] = kept


def nan(weight):
    weight = weight.clone()
    weight.view(-1)[-1] = float("nan")
    return weight


WEIGHTS = {
    "NaN": nan,
    "infinite": lambda w: torch.full_like(w, float("inf")),
    "too large for the model": lambda w: torch.full_like(w.double(), 1e300),
    "integer": lambda w: w.long(),
    "bytes": lambda w: w.to(torch.uint8),
    "flags": lambda w: w.bool(),
    "complex": lambda w: w.to(torch.complex64),
    "sparse": lambda w: w.to_sparse(),
    "of another shape": lambda w: w.new_zeros(*w.shape, 1),
    "enormous by repetition": lambda w: w.new_zeros(1).expand(10**12),
    "without memory": lambda w: w.to("meta"),
    "a list": lambda w: w.tolist(),
    "None": lambda w: None,
}


def test_weights_that_cannot_be_computed_with_are_refused(kind, checkpoints, refused):
    state = checkpoints[kind].state
    # float64, as of reference energies, holds larger numbers than any of these
    names = [name for name, value in state.items() if value.dtype == torch.float32]
    for name, (what, change) in itertools.product({names[0], names[-1]}, WEIGHTS.items()):
        content = contents_of(checkpoints[kind])
        content["state"][name] = change(state[name])
        refused(content, f"{name}: {what}")


def test_other_weights_than_those_of_the_model_are_refused(kind, checkpoints, refused):
    state = checkpoints[kind].state
    counts = [name for name in state if name.endswith("num_batches_tracked")]
    for what, changes in (
        ("surplus", {"surplus" * 1000: torch.zeros(1)}),
        ("a number for a name", {7: torch.zeros(1)}),
        ("counts that are floating", dict.fromkeys(counts[:1], torch.tensor(0.5))),
    ):
        content = contents_of(checkpoints[kind])
        content["state"].update(changes)
        if changes:
            refused(content, what)
    content = contents_of(checkpoints[kind])
    del content["state"][next(iter(state))]
    refused(content, "missing")


def test_negative_variances_are_refused(checkpoints, refused):
    for kind, end in (("affnist cnn", "running_var"), ("mesh", "deviation")):
        content = contents_of(checkpoints[kind])
        name = next(name for name in content["state"] if name.endswith(end))
        content["state"][name] -= 2
        assert "variance" in refused(content, name)


def test_weights_of_another_precision_are_accepted(kind, checkpoints, load):
    content = contents_of(checkpoints[kind])
    for name, value in content["state"].items():
        if value.is_floating_point():
            content["state"][name] = value.bfloat16()
    state = load(content).model.state_dict()
    assert all(state[name].dtype == value.dtype for name, value in checkpoints[kind].state.items())


def test_statistics_of_training_samples_that_are_none_or_of_another_model_are_refused(
    checkpoints, refused
):
    for kind in ("mesh", "potential"):
        state = checkpoints[kind].novelty
        for (name, value), (what, change) in itertools.product(state.items(), WEIGHTS.items()):
            content = contents_of(checkpoints[kind])
            content["novelty"][name] = change(value)
            refused(content, f"{name}: {what}")
    content = contents_of(checkpoints["potential"])
    content["novelty"]["forces_scale"] = -content["novelty"]["forces_scale"]
    refused(content, "negative scales")
    content = contents_of(checkpoints["affnist cnn"])
    content["novelty"] = contents_of(checkpoints["mesh"])["novelty"]
    refused(content, "novelty of a mesh")


LARGE = {
    "mesh": [{"skips": 256, "heads": 256}, {"channels": [65_536, 65_536]}, {"hidden": 65_536,
             "channels": [60_000] * 2}, {"channels": [4] * 64, "keep": [None] * 64, "skips": 256}],
    "affnist": [{"stages": {"channels": [65_536], "pool": [True]}}, {"num_classes": 10**6},
                {"stages": {"channels": [4], "pool": [True], "blocks": 256, "convs": 256}},
                {"samples": {"count": 1024}, "head": {"features": 60_000, "size": 255}}],
    "affnist cnn": [{"widths": [65_536] * 2}, {"blocks": 256, "widths": [16] * 64}],
    "pointcloud affine": [{"channels": [65_536] * 3}, {"rank": 65_536, "gaussians": 256}],
    "pointcloud mds": [{"settings": {"widths": [65_536] * 8}}, {"num_classes": 10**6,
                       "settings": {"widths": [8], "hidden": [65_536]}}],
    "pointcloud plain": [{"network": "transformer", "settings": {"channels": 65_536}}],
    "dynamics": [{"scalars": 65_536}, {"blocks": 256, "vectors": 4096}],
    "tsp": [{"channels": 65_536, "heads": 2}, {"layers": 256, "hidden": 65_536}],
    "potential": [{"channels": 4096}, {"radial_hidden": [4096, 4096]}],
}  # fmt: skip


def test_a_model_much_larger_than_its_weights_is_refused_before_it_is_built(
    kind, checkpoints, refused
):
    for change in LARGE[kind]:
        content = contents_of(checkpoints[kind])
        content["config"]["model"].update(change)
        refused(content, change)


HISTORIES = [
    "long", [1], [{}], [{"epoch": 2, "loss": 1.0, "seconds": 1.0}],
    [{"epoch": 1, "loss": float("nan"), "seconds": 1.0}],
    [{"epoch": 1, "loss": None, "seconds": 1.0}],
    [{"epoch": 1, "loss": 1.0, "seconds": "long"}],
    [{"epoch": 1, "loss": 10**400, "seconds": 1.0}],
    [{"epoch": n, "loss": 1.0, "seconds": 1.0} for n in range(1, 1000)],
]  # fmt: skip


def test_histories_and_class_names_that_no_run_has_are_refused(checkpoints, refused):
    for history in HISTORIES:
        content = contents_of(checkpoints["mesh"])
        content["training"]["history"] = history
        assert "history" in refused(content, history)
    content, long = contents_of(checkpoints["mesh"]), "c" * 256
    for classes in (["a"], ["a", "b", "b"], ["a", "b", 3], "abc", {"a": 1}, None, ["a", "b", long]):
        content["config"]["classes"] = classes
        refused(content, classes)


def test_compressed_and_overlapping_members_are_refused(checkpoints, tmp_path):
    plain, packed = tmp_path / "plain.ckpt", tmp_path / "model.ckpt"
    checkpoints["mesh"].save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w") as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match=r"model\.ckpt: truncated, damaged"):
        Checkpoint.load(packed)


def test_large_files_and_much_beside_the_tensors_are_refused_unread(
    checkpoints, refused, monkeypatch, tmp_path
):
    monkeypatch.setattr(checkpoint, "MAX_PICKLED", 100_000)
    content = contents_of(checkpoints["mesh"])
    content["training"]["history"] = [None] * 100_000
    assert "truncated, damaged" in refused(content, "a long list")
    path = tmp_path / "model.ckpt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CheckpointError, match="more than"):
        Checkpoint.load(path)
