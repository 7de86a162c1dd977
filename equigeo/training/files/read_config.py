"""Reader for the configuration of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from equigeo.training.run_config import RunConfig

_Config = TypeVar("_Config", bound=RunConfig)
_LARGEST = 1 << 20  # bytes of a configuration, which has about a thousand


def read_config(path: Path, config_type: type[_Config]) -> _Config:
    """Load the ``config.json`` of a run; errors do not name the file."""
    return config_type.from_dict(read_json(path))


def read_json(path: Path) -> Any:
    """Load a small untrusted JSON file; errors do not name the file."""
    try:
        return json.loads(_text(path))
    except OSError as error:
        raise ValueError(str(error.strerror or error)) from error
    except RecursionError as error:  # of nested brackets
        raise ValueError("its brackets are nested too deep") from error


def _text(path: Path) -> str:
    """Read the file; raise if it is not regular or too large."""
    if not path.is_file():
        raise ValueError("it is no regular file" if path.exists() else "no such file")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return content.decode()
