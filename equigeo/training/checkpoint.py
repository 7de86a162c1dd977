"""Checkpoint file of a training run."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from equigeo._core.brief import brief_fields, shown
from equigeo._core.files import replace_file

MAX_BYTES = 4 << 30
MAX_PICKLED = 8 << 20  # bytes beside tensors: the history of 100,000 epochs has 6 MB

_FORMAT: Final = 1
_FIELDS: Final[dict[str, type]] = {"task": str, "config": dict, "state": dict, "training": dict}
_OPTIONAL: Final = "novelty"  # absent from the files of earlier versions


class CheckpointError(ValueError):
    """Unusable checkpoint; the message names the file, the cause and the remedy.

    Examples
    --------
    >>> from equigeo.training import Checkpoint
    >>> try:
    ...     Checkpoint.load("no_such_file.ckpt")
    ... except CheckpointError as error:
    ...     print(error)
    no_such_file.ckpt: no such file; pass the model.ckpt of a training run
    """


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint file: only tensors and JSON types, so that loading runs no code.

    Parameters
    ----------
    config : dict of JSON types, description of model and run
    state : dict of Tensor, ``state_dict`` of the model to evaluate
    training : dict, state for resuming; may be empty
    novelty : dict of Tensor, state of ``TrainedModel.novelty``; may be empty

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "model.ckpt"
    ...     Checkpoint("demo", {"width": 2}, {"w": torch.zeros(2)}, {}).save(file)
    ...     Checkpoint.load(file, "demo").config
    {'width': 2}
    """

    task: str
    config: dict[str, Any]
    state: dict[str, Tensor]
    training: dict[str, Any]
    novelty: dict[str, Tensor] = field(default_factory=dict)

    __repr__ = brief_fields

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically; ``OSError`` leaves an older file unchanged."""
        content = {"format": f"equigeo/{_FORMAT}"} | {f: getattr(self, f) for f in _FIELDS}
        if self.novelty:
            content[_OPTIONAL] = self.novelty
        # in memory first: the error of torch on a full disk has no cause
        packed = BytesIO()
        torch.save(content, packed)
        replace_file(Path(path), lambda file: file.write(packed.getbuffer()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], task: str | None = None) -> Checkpoint:
        """Load a checkpoint, of any task by default, without running code from it.

        Raises ``CheckpointError`` if the file is missing, damaged, unsafe, or of another format or
        task.
        """
        content = _read(Path(path))
        version = content.get("format") if isinstance(content, dict) else None
        matched = re.fullmatch(r"equigeo/(\d{1,9})", version) if isinstance(version, str) else None
        if matched is None:
            raise CheckpointError(
                f"{path}: not a checkpoint of equigeo; pass the model.ckpt of a training run"
            )
        if int(matched[1]) != _FORMAT:
            raise CheckpointError(
                f"{path}: has format {version}, this version reads equigeo/{_FORMAT}; "
                "upgrade equigeo, or train again"
            )
        content.setdefault(_OPTIONAL, {})
        for name, expected in (*_FIELDS.items(), (_OPTIONAL, dict)):
            if not isinstance(content.get(name), expected):
                raise CheckpointError(
                    f"{path}: field {name!r} is missing or no {expected.__name__}; train again"
                )
        if task is not None and content["task"] != task:
            raise CheckpointError(
                f"{path}: is for the task {shown(content['task'])}, expected {task!r}; "
                "pass a checkpoint of that task"
            )
        return cls(**{name: content[name] for name in (*_FIELDS, _OPTIONAL)})


def _read(path: Path) -> Any:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise CheckpointError(f"{path}: {what}; pass the model.ckpt of a training run")
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error.strerror}); pass the model.ckpt of a training run"
        ) from error
    if size > MAX_BYTES:
        raise CheckpointError(
            f"{path}: has {size} bytes, more than {MAX_BYTES}; pass a training run's model.ckpt"
        )
    try:
        # Unpacked it must not be larger than the file; torch does not compress members.
        with zipfile.ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it has compressed members")
        if any(m.file_size > MAX_PICKLED for m in members if m.filename.endswith(".pkl")):
            raise ValueError(f"it has more than {MAX_PICKLED} bytes beside tensors")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("its members overlap")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about formats that raise below
            return torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes raise anything from EOFError to UnicodeDecodeError
        raise CheckpointError(
            f"{path}: truncated, damaged, or holds objects other than tensors and plain data, "
            "which are never loaded; pass an intact model.ckpt from a training run"
        ) from error


# Buffers whose square root or inverse is taken, by the end of their name.
_NOT_NEGATIVE = ("running_var", "deviation")


def check_weights(
    expected: Mapping[str, Tensor],  # `state_dict` of the model
    given: Mapping[str, Any],  # content of a file
) -> None:
    """Raise unless weights are finite CPU tensors that fit a ``state_dict``."""
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        raise ValueError(f"it lacks the weights {shown(missing)} and has {shown(unknown)} instead")
    for name, value in expected.items():
        problem = _problem(name, value, given[name])
        if problem:
            raise ValueError(f"weight {name!r} {problem}")


def stored_numbers(value: object) -> int:
    """Return the number of elements in the storage of a tensor; expanded axes count once."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested:
        return 0
    return min(value.numel(), value.untyped_storage().nbytes() // value.element_size())


def _problem(name: str, expected: Tensor, given: object) -> str:
    """Return the defect of a weight, testing its shape before its values."""
    if not isinstance(given, Tensor):
        return f"must be a tensor, got {shown(given)}"
    if given.is_nested or given.layout != torch.strided or given.device.type != "cpu":
        return "is no dense tensor in memory"
    if given.shape != expected.shape:
        return f"has shape {shown(tuple(given.shape))}, expected {tuple(expected.shape)}"
    if _kind(given.dtype) != _kind(expected.dtype):
        return f"has numbers of {given.dtype}, expected {expected.dtype}"
    if expected.dtype.is_floating_point:
        numbers = given.detach().to(expected.dtype)
        if not bool(numbers.isfinite().all()):
            return f"has numbers that are not finite in {expected.dtype}"
        if name.endswith(_NOT_NEGATIVE) and bool((numbers < 0).any()):
            return "has negative numbers, which a variance cannot have"
    return ""


def _kind(dtype: torch.dtype) -> str:
    """Return the kind of a dtype (floating, complex, integer, other), for any precision."""
    if dtype.is_floating_point:
        return "floating"
    if dtype.is_complex:
        return "complex"
    whole = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    return "whole" if dtype in whole else str(dtype)
