"""Checkpoints that were tampered with, of every kind of model."""

import contextlib
import copy
import io
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from equigeo.tasks import TASKS, find_task
from equigeo.training import CheckpointError
from tests.fuzz.case import Case
from tests.tasks.test_hostile_checkpoints import CYCLE, SHARED, contents_of, leaves, put
from tests.tasks.tiny_checkpoints import tiny_checkpoints

DEEP: list[Any] = []
for _ in range(100):  # as deep as pickle can write; see ``file_of_deep_lists``
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 7, 64, 1000, 65_536, 10**6, 2**31, 2**62, 2**63, 10**30, 10**5000, -(2**63),
    0.0, 0.5, 1.0, -0.5, 1e-300, 1e300, float("nan"), float("inf"), True, False, None,
    "", "a", "SO", "\x1b[2J", "x" * 10**6, "../../etc/passwd", [], {}, [1], [0], [[1]], [0.5],
    [4] * 64, [4] * 10**4, [None] * 3, {"a": 1}, {1: 2}, (), (1, 2), CYCLE, SHARED, DEEP,
    torch.zeros(3), torch.zeros(1).expand(10**12), torch.zeros(2, dtype=torch.complex64),
)  # fmt: skip
INVALID = (-1, 10**30, -(10**30), 10**5000, float("nan"), 1e300, "no such", [[[[[1]]]]], SHARED)
DTYPES = (
    torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool,
    torch.complex64, torch.float8_e4m3fn,
)  # fmt: skip


def cases(seed: int) -> Iterator[Case]:
    """Changes of all kinds, without end."""
    contents = {name: contents_of(checkpoint) for name, checkpoint in tiny_checkpoints().items()}
    number = 0
    while True:
        for kind, content in contents.items():
            random = Random(f"{seed} {number}")
            number += 1
            is_invalid = random.random() < 0.5
            one = random.choice(SURE if is_invalid else ANY)
            more = 0 if is_invalid else random.choice([0, 0, 1, 2, 3])
            changes = [one, *(random.choice(ANY) for _ in range(more))]
            label = f"{kind}: {', '.join(change.__name__ for change in changes)}"
            call = partial(_load_changed, content, changes, f"{seed} {number}")
            yield Case(label, call, (CheckpointError,), must_refuse=is_invalid)


def _load_changed(content: dict[str, Any], changes: list[Callable[..., None]], name: str) -> None:
    """Write a changed file and load it."""
    random, content = Random(name), copy.deepcopy(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ckpt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors of unusual kinds
            for change in changes:
                if change not in BYTES:
                    # what a change before has taken away, or made enormous, is not changed again
                    with contextlib.suppress(LookupError, TypeError, AttributeError, RuntimeError):
                        change(content, random)
            torch.save(content, path)
            for change in changes:
                if change in BYTES:
                    change(path, random)
        _use(path)


def _use(path: Path) -> None:
    """Load as ``equigeo evaluate`` does, and see whether it is a model that came out."""
    trained = find_task(path, TASKS).trained_type.load(path)
    repr(trained)
    assert type(trained.config).from_dict(trained.config.to_dict()) == trained.config
    for name, weight in trained.model.state_dict().items():
        assert not weight.is_floating_point() or bool(weight.isfinite().all()), name
    assert 0 <= trained.epochs_done <= trained.config.recipe.epochs


def _numbers(values: Any) -> list[tuple[Any, ...]]:
    """Paths to numbers that are no flags."""
    return [path for path in leaves(values) if type(_get(values, path)) in (int, float)]


def _get(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _weight(content: dict[str, Any], random: Random) -> str:
    """The name of a floating weight that has numbers."""
    weights = {n: w for n, w in content["state"].items() if isinstance(w, Tensor) and w.numel()}
    names = [n for n, w in weights.items() if w.is_floating_point()]
    return random.choice(names or [""])


def number_out_of_range(content: dict[str, Any], random: Random) -> None:
    path = random.choice(_numbers(content["config"]))
    put(content["config"], path, random.choice(INVALID))


def name_unknown(content: dict[str, Any], random: Random) -> None:
    content["config"][random.choice(["model", "train"])]["no such"] = random.choice(VALUES)


def weight_not_finite(content: dict[str, Any], random: Random) -> None:
    name = _weight(content, random)
    weight = content["state"][name].clone()
    place = random.randrange(weight.numel())
    weight.view(-1)[place] = random.choice([float("nan"), float("inf"), -float("inf")])
    content["state"][name] = weight


def weight_of_another_kind(content: dict[str, Any], random: Random) -> None:
    name = _weight(content, random)
    dtype = random.choice([torch.int64, torch.uint8, torch.bool, torch.complex64])
    content["state"][name] = content["state"][name].to(dtype)


def weight_of_another_shape(content: dict[str, Any], random: Random) -> None:
    name = _weight(content, random)
    weight = content["state"][name]
    shapes = [(0,), (*weight.shape, 1), (1, *weight.shape), (10**12,), (2**31, 2**20)]
    content["state"][name] = torch.zeros(1).expand(random.choice(shapes))


def weight_missing(content: dict[str, Any], random: Random) -> None:
    del content["state"][_weight(content, random)]


def history_of_nobody(content: dict[str, Any], random: Random) -> None:
    line = {"epoch": 1, "loss": 1.0, "seconds": 1.0}
    line[random.choice([*line])] = random.choice([float("nan"), "a", None, -7j, [1], 1e400])
    content["training"]["history"] = [line]


def file_cut(path: Path, random: Random) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(random.randrange(size - 30))


def file_compressed(path: Path, random: Random) -> None:
    repack(path, {}, zipfile.ZIP_DEFLATED)


def file_of_another_kind(path: Path, random: Random) -> None:
    path.write_bytes(
        random.choice([b"", b"{}", b"[" * 10**5, b"PK\3\4" * 9, pickle.dumps({}), bytes(10**6)])
    )


def file_of_deep_lists(path: Path, random: Random) -> None:
    """Nest deeper than Python can follow, in a file that its writer could not have written."""
    depth = random.choice([1_000, 10**5])
    deep = b"]" * depth + b"a" * (depth - 1)
    empty = b"}"
    fields = {
        "format": _text("equigeo/1"), "task": _text("tsp"), "state": empty, "training": empty,
        "config": _mapping({"model": deep, "train": deep, "classes": deep, "version": deep}),
    }  # fmt: skip
    fields[random.choice([*fields])] = deep
    repack(path, {"data.pkl": b"\x80\x02" + _mapping(fields) + b"."})


def _text(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _mapping(fields: dict[str, bytes]) -> bytes:
    return b"}(" + b"".join(_text(name) + value for name, value in fields.items()) + b"u"


def repack(path: Path, changes: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    """Replace members of a checkpoint, by the ends of their names."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", method) as target:
        for member in source.infolist():
            name = member.filename.rpartition("/")[2]
            target.writestr(member.filename, changes.get(name, source.read(member)))
    path.write_bytes(packed.getvalue())


def any_leaf(content: dict[str, Any], random: Random) -> None:
    part = random.choice([content, content["config"], content["training"], content["novelty"]])
    paths = [*leaves(part)]
    if paths:
        put(part, random.choice(paths), random.choice(VALUES))


def any_branch(content: dict[str, Any], random: Random) -> None:
    values = content
    while isinstance(values, dict) and values:
        key = random.choice([*values])
        if random.random() < 0.3 or not isinstance(values[key], dict):
            values[key] = random.choice(VALUES)
            return
        values = values[key]


def any_key(content: dict[str, Any], random: Random) -> None:
    part = random.choice([content, content["config"], content["state"], content["training"]])
    if not isinstance(part, dict):
        return
    if part and random.random() < 0.5:
        part.pop(random.choice([*part]))
    else:
        part[random.choice(["no such", "", 3, "x" * 10**5])] = random.choice(VALUES)


def any_weight(content: dict[str, Any], random: Random) -> None:
    state = content["state"]
    if not isinstance(state, dict) or not state:
        return
    name = random.choice([*state])
    weight = state[name]
    if not isinstance(weight, Tensor) or random.random() < 0.3:
        state[name] = random.choice(VALUES)
    elif random.random() < 0.5:
        state[name] = weight.to(random.choice(DTYPES))
    else:
        state[name] = random.choice(_TWISTS)(weight)


_TWISTS: tuple[Callable[[Tensor], Any], ...] = (
    lambda w: w * 1e30,
    lambda w: -w,
    lambda w: w.flatten(),
    lambda w: w[None].expand(10**6, *w.shape),
    lambda w: w.mT if w.ndim > 1 else w[..., None],
    lambda w: w.to("meta"),
    lambda w: w.to_sparse() if w.ndim else w.tolist(),
    lambda w: torch.nn.Parameter(w.clone()) if w.is_floating_point() else w,
)


def any_bytes(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 1, 3, 30])):
        content[random.randrange(len(content))] = random.randrange(256)
    path.write_bytes(bytes(content))


BYTES = (file_of_deep_lists, file_cut, file_compressed, file_of_another_kind, any_bytes)
SURE: list[Callable[..., None]] = [
    number_out_of_range, number_out_of_range, number_out_of_range, name_unknown, weight_not_finite,
    weight_of_another_kind, weight_of_another_shape, weight_missing, history_of_nobody, file_cut,
    file_compressed, file_of_another_kind, file_of_deep_lists,
]  # fmt: skip
ANY: list[Callable[..., None]] = [
    any_leaf, any_leaf, any_branch, any_key, any_weight, any_weight, any_bytes,
]  # fmt: skip
