"""Options saved with a state_dict, and modules without state."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from math import isclose
from typing import Any, ClassVar, TypeVar
from warnings import warn

from torch import nn

from equigeo._core.config import Config

M = TypeVar("M", bound=nn.Module)
_Model = TypeVar("_Model", bound="SavedConfig")
_KEY = "options"


class SavedOptions(nn.Module, ABC):
    """Base of modules that reject state saved with different options."""

    # Options are saved as metadata of the state_dict, so that its keys remain those of e3nn. A
    # state without options, from another version or library, is loaded unchanged. So is a state
    # without any metadata, copied entry by entry or by safetensors, which may have had options.
    _default_options: ClassVar[Mapping[str, Any]] = {}

    def _saved_options(self) -> Mapping[str, Any]:
        """Return options by name as text, numbers and lists of these."""
        return {}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        options, metadata = self._saved_options(), getattr(destination, "_metadata", None)
        if options and metadata is not None and _has_state(self):
            metadata.setdefault(prefix[:-1], {})[_KEY] = dict(options)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Mapping[str, Any], *args: Any
    ) -> None:
        saved, own = local_metadata.get(_KEY, {}), self._saved_options()
        differing = [name for name in own if name in saved and not _same(saved[name], own[name])]
        name = f"{type(self).__name__} {prefix[:-1]}".rstrip()
        if not (differing and _has_state(self)):
            if "version" not in local_metadata and _has_state(self):  # PyTorch saves one
                self._warn_of_options(name, own)
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)
            return
        *_, error_messages = args
        there, here = _first_difference(saved[differing[0]], own[differing[0]])
        error_messages.append(
            f"{name}: the state was saved with {differing[0]} {there}, but this layer has {here}, "
            "so that the weights would mean something else. Build the layer with the options of "
            "the saved one."
        )

    def _warn_of_options(self, name: str, own: Mapping[str, Any]) -> None:
        """Warn if weights are read by other options than the default ones."""
        for option, default in self._default_options.items():
            value = own.get(option, getattr(self, option, default))
            if not _same(value, default):
                warn(
                    f"{name}: the state has no metadata, which would contain its options; "
                    f"its weights are read as those of a layer with {option} {value!r}",
                    stacklevel=3,
                )
                return


class SavedConfig(SavedOptions, ABC):
    """Base of models whose options are the fields of their configuration."""

    config: Any  # a Config
    config_type: ClassVar[type[Config]]
    # Shapes determine the number of classes, and dropout is for training only.
    _unsaved_fields: ClassVar[frozenset[str]] = frozenset({"num_classes", "dropout"})

    @classmethod
    def from_config(cls: type[_Model], config: Config | Mapping[str, Any]) -> _Model:
        """Build from :attr:`config` or its mapping in a checkpoint, which may miss fields."""
        return cls(config if isinstance(config, Config) else cls.config_type.from_dict(config))

    def _saved_options(self) -> Mapping[str, Any]:
        return _without(self.config.to_dict(), self._unsaved_fields)


def _without(value: Any, names: frozenset[str]) -> Any:
    """Return nested mappings without the entries of some names."""
    if not isinstance(value, Mapping):
        return value
    return {name: _without(each, names) for name, each in value.items() if name not in names}


def _has_state(module: nn.Module) -> bool:
    """Return whether a module itself saves parameters or buffers."""
    return any(
        part._parameters or part._buffers.keys() - part._non_persistent_buffers_set
        for part in module.modules()
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):  # another version may have more fields
        return all(_same(a[name], b[name]) for name in a.keys() & b.keys())
    if isinstance(a, float) and isinstance(b, float):
        return isclose(a, b, rel_tol=1e-6)  # factors may be rounded differently on other machines
    return bool(a == b)


def _first_difference(there: Any, here: Any) -> tuple[Any, Any]:
    """Return two values, or the first entries that differ, to keep messages short."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        name = next(name for name in here if name in there and not _same(there[name], here[name]))
        a, b = _first_difference(there[name], here[name])
        return f"{name} {a}", f"{name} {b}"
    if isinstance(there, (list, tuple)) and isinstance(here, (list, tuple)):
        pairs = list(zip(there, here, strict=False))
        for n, (a, b) in enumerate(pairs):
            if not _same(a, b):
                return f"{n}: {a}", b
        return f"of length {len(there)}", len(here)
    return repr(there), repr(here)


def stateless(module: M) -> M:
    """Exclude the buffers of a module from its ``state_dict``; raise if it has parameters."""
    names = [name for name, _ in module.named_parameters()]
    if names:
        raise ValueError(f"{type(module).__name__} must have no parameters, has {names}")
    for part in module.modules():
        for name, buffer in list(part.named_buffers(recurse=False)):
            part.register_buffer(name, buffer, persistent=False)
    return module
