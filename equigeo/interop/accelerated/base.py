"""Base class of accelerated modules, and their installation and comparison."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.jit import ScriptModule

from equigeo._core.tensors import (
    HOOKS,
    autocast_active,
    autocasts,
    transforms_active,
    values_readable,
)

BODY = "accelerated"  # name of the child that computes
READ = "_read"  # attribute that holds what the body was made of
OWN = frozenset(vars(nn.Module()))  # attributes that every module has, among them its children
FUSION = "conv_fusion"  # attribute by which a block of MACE leaves gather and scatter to conv_tp
HERE = "equigeo"  # its value
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-6}  # tables may be rounded to float32
_NOBODY = nn.Module()
_CLASSES: dict[tuple[type, type], type[nn.Module]] = {}


class Part(NamedTuple):
    """A module that a body was built from, with its attributes and children at that time."""

    module: nn.Module
    kind: type
    attributes: tuple[tuple[str, Any], ...]
    children: tuple[tuple[str, Any], ...]


class Accelerated(nn.Module):
    """Mixin of accelerated modules: :meth:`install` adds it to the class of a module."""

    # install() changes the class of a module, as torch.nn.utils.parametrize does. The child
    # ``accelerated`` only holds constants, so that parameters and state_dict do not change.
    runs_on: ClassVar[str]
    passes_by: ClassVar[str] = ""  # the child that ``forward`` does not call any more
    changes: ClassVar[tuple[str, ...]] = ()  # buffers that a call of ``forward`` changes
    lengths: ClassVar[tuple[float, ...]] = ()  # of vectors for which it may be special
    live: ClassVar[tuple[str, ...]] = ()  # attributes and children that ``forward`` still reads
    made_of: ClassVar[tuple[type[Accelerated], type[nn.Module]]]
    # What NequIP imports before it loads a compiled model.
    _nequip_custom_ops_libs: ClassVar[tuple[str, ...]] = ("equigeo.ops",)
    accelerated: nn.Module

    @classmethod
    @abstractmethod
    def body_of(
        cls,
        module: Any,  # of the other library, accelerated or not; only read
    ) -> nn.Module:
        """Build the body for a module, or raise ``ValueError`` with the reason."""

    @abstractmethod
    def example(
        self,
        rows: int = 3,  # number of samples or edges
    ) -> tuple[Any, ...]:
        """Return fixed tensors for comparisons, by default arguments of ``forward``."""

    def original(self, *args: Any) -> Tensor:
        """Compute the result of the original ``forward`` for arguments as of :meth:`example`."""
        return self.made_of[1].forward(self, *args)

    def replacement(self, *args: Any) -> Tensor:
        """Compute the result of ``forward`` for arguments as of :meth:`example`."""
        return self.forward(*args)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restore buffers after calls that are only comparisons."""
        kept = {name: self.get_buffer(name).clone() for name in self.changes}
        try:
            yield
        finally:
            for name, value in kept.items():
                self.get_buffer(name).copy_(value)

    def is_as_read(self) -> bool:
        """Return whether the body still computes the same as the original module."""
        # False after an attribute or inner module that the body was built from is replaced or gets
        # hooks; then the original forward runs. Tables that e3nn and MACE keep in buffers are only
        # read again by load_state_dict.
        parts = vars(self)[READ]
        if parts is None or not _is_as(vars(self), parts[0]):
            return False
        for part in parts[1:]:  # a generator takes longer, and every module asks in every call
            own = vars(part.module)
            if type(part.module) is not part.kind or "forward" in own:
                return False
            for hooks in HOOKS:
                if own[hooks]:
                    return False
            if not _is_as(own, part):
                return False
        return True

    def renew(self) -> None:
        """Rebuild the tables of the body from a loaded state."""

    @classmethod
    def install(
        cls,
        module: nn.Module,
        body: nn.Module,  # result of body_of
    ) -> None:
        """Accelerate a module in place."""
        module.__class__ = accelerated_class(cls, type(module))
        _attach(module, body)

    def uninstall(self) -> None:
        """Revert :meth:`install`."""
        # New dictionaries: those here may be shared with a shallow copy, which stays accelerated.
        hooks = self._load_state_dict_post_hooks.items()
        self._load_state_dict_post_hooks = OrderedDict(
            (key, hook) for key, hook in hooks if hook is not _renew
        )
        self._modules = {name: part for name, part in self._modules.items() if name != BODY}
        del vars(self)[READ]
        self.__class__ = self.made_of[1]  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The class exists at run time only: a pickle names what it is made of.
        reduced: Any = super().__reduce_ex__(max(int(protocol), 2))
        # A copy has other inner modules: it reads its own.
        state = {**reduced[2], READ: self.is_as_read()}
        return (_blank, self.made_of, state, *reduced[3:])

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        # Last again: e3nn removes its compiled code from a copy, and adds it at the end.
        self._modules[BODY] = self._modules.pop(BODY)
        vars(self)[READ] = _read(self) if state.get(READ, True) else None

    def __prepare_scriptable__(self) -> Any:
        # What torch.jit.script asks first. To answer with the original would put it into the model.
        raise RuntimeError(
            f"{type(self).__name__} cannot be scripted, expected the original module: call "
            "equigeo.interop.restore(model) first"
        )


def accelerated_class(
    kind: type[Accelerated],  # class with the new forward
    base: type[nn.Module],  # original class
) -> type[nn.Module]:
    """Return the cached subclass of both classes."""
    if (kind, base) not in _CLASSES:
        inside = {
            "__module__": kind.__module__,
            "__doc__": kind.__doc__,
            "__init__": _construct,
            "made_of": (kind, base),
        }
        _CLASSES[kind, base] = type(f"Accelerated{base.__name__}", (kind, base), inside)
    return _CLASSES[kind, base]


def module_of(cls: type) -> str:
    """Return the Python module of a class, without the prefix of a torch.package."""
    return cls.__module__.rpartition(">.")[2]


def original_name(module: nn.Module) -> str:
    """Return the name of the class of a module, accelerated or not, in its own library."""
    cls = type(module)
    return (cls.made_of[1] if issubclass(cls, Accelerated) else cls).__name__


def passed_by(
    module: nn.Module,
    kind: type[Accelerated],  # current or future class of the module
) -> list[nn.Module]:
    """Return the inner modules that an accelerated module does not call, without TorchScript."""
    found: dict[nn.Module, None] = {}

    def visit(children: Collection[tuple[str, Any]]) -> None:
        for _, child in children:
            if child not in found and child is not None:
                found[child] = None
                visit(_children(child, ()))

    visit(_children(module, kind.live))
    return list(found)


def _construct(self: Any, *args: Any, **options: Any) -> None:
    kind, base = self.made_of
    base.__init__(self, *args, **options)
    try:
        body = kind.body_of(self)
    except ValueError:  # as in a model, where the search keeps what has no body
        self.__class__ = base
    else:
        _attach(self, body)


def _attach(module: nn.Module, body: nn.Module) -> None:
    # A new dictionary: that here may be shared with a shallow copy, which is not accelerated.
    module._modules = {**module._modules, BODY: body.train(module.training)}
    module._load_state_dict_post_hooks = OrderedDict(module._load_state_dict_post_hooks)
    module.register_load_state_dict_post_hook(_renew)
    vars(module)[READ] = _read(module)


def _read(module: Any) -> tuple[Part, ...]:
    """Record a module and the inner modules that it does not call."""
    # Without a reference to the module, which would not be freed before garbage is collected.
    own = _part(module, type(module).live)._replace(module=_NOBODY)
    return own, *(_part(part, ()) for part in passed_by(module, type(module)))


def _part(module: nn.Module, live: Collection[str]) -> Part:
    # Attributes of compiled code are not what it computes, and torch.compile compares no tuples.
    compiled = isinstance(module, GraphModule)
    skipped = {*OWN, READ, *live}
    attributes = tuple(
        (name, value)
        for name, value in vars(module).items()
        if not (compiled or name in skipped or type(value) is tuple)
    )
    return Part(module, type(module), attributes, _children(module, live))


def _children(module: nn.Module, live: Collection[str]) -> tuple[tuple[str, Any], ...]:
    """Return children except TorchScript of e3nn 0.4, which changes its attributes when read."""
    return tuple(
        (name, part)
        for name, part in module._modules.items()
        if not (name == BODY or name in live or isinstance(part, ScriptModule))
    )


def _is_as(own: dict[str, Any], part: Part) -> bool:
    """Compare the attributes and children of a module with the recorded ones."""
    for name, value in part.attributes:
        if name not in own:
            return False
        # To torch.compile, lists of constants are never the same, but may be equal.
        if own[name] is not value and not (type(value) is list and own[name] == value):
            return False
    children = own["_modules"]
    for name, value in part.children:
        if name not in children or children[name] is not value:
            return False
    return True


def _blank(kind: type[Accelerated], base: type[nn.Module]) -> nn.Module:
    cls = accelerated_class(kind, base)
    return cls.__new__(cls)


def _renew(module: Any, incompatible_keys: Any) -> None:
    if module.is_as_read():
        module.renew()
    else:  # a body that does not follow a state is not used again
        vars(module)[READ] = None


@dataclass(frozen=True)
class Candidate:
    """A prepared replacement of a module, which can be installed and reverted."""

    path: str  # name of the module in its model
    module: Any  # module to accelerate
    kind: type[Accelerated]  # class to install
    body: nn.Module  # module that computes the result
    block: nn.Module | None = None  # block of MACE that needs a flag

    @property
    def kind_name(self) -> str:
        """Return the name of the original class."""
        return original_name(self.module)

    def install(self, device: torch.device) -> None:
        """Accelerate the module, on the given device if it has no tensors."""
        own = next(chain(self.module.parameters(), self.module.buffers()), None)
        self.kind.install(self.module, self.body.to(device if own is None else own.device))
        if self.block is not None:
            setattr(self.block, FUSION, HERE)

    def uninstall(self) -> None:
        """Revert :meth:`install`, also if it failed or did not run."""
        if getattr(self.block, FUSION, None) == HERE:
            delattr(self.block, FUSION)
        if isinstance(self.module, Accelerated):
            self.module.uninstall()

    def problem(self) -> str | None:
        """Return the difference to the original module on random features, or None."""
        arguments = self.module.example()
        with torch.no_grad(), self.module.unchanged():
            try:
                before = self.module.original(*arguments)
            except Exception as error:  # any error of the other library
                return f"fails on an example: {last_line(error)}"
            after = self.module.replacement(*arguments)
        return _difference(before, after)


def last_line(error: Exception) -> str:
    """Return the last line of an error message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


def _difference(before: Tensor, after: Tensor) -> str | None:
    limit = TOLERANCE.get(before.dtype)
    if limit is None or before.is_meta or not before.isfinite().all():
        return None
    if before.shape != after.shape:
        return f"output shape {tuple(after.shape)} differs from the original {tuple(before.shape)}"
    error, scale = float((after - before).norm()), float(before.norm())
    if error <= limit * scale:
        return None
    return f"relative error {error / (scale or 1.0):.1e} exceeds {limit:.0e}"


def fit(*values: Any) -> bool:
    """Return whether the ops support the arguments: tensors of one floating dtype, no autocast."""
    first = values[0]
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return False
    for value in values:  # a generator takes longer, and every module asks in every call
        if not isinstance(value, Tensor) or value.dtype != first.dtype:
            return False
    return not (autocast_active() and autocasts(first.device.type))


def cheaply_readable(*values: Tensor) -> bool:
    """Return whether reading values is cheap: on the CPU only."""
    if not values_readable(values[0]) or transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return all(type(value) is Tensor and value.device.type == "cpu" for value in values)


def random(*shape: int, like: Tensor, seed: int = 0) -> Tensor:
    """Sample from N(0, 1) like another tensor, with a separate generator."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(like.device, like.dtype)


def random_graph(edges: int, device: torch.device) -> tuple[int, Tensor]:
    """Return the number of nodes and unsorted edges (2, edges), a third of them at one node."""
    # 64 edges per node, as in interatomic potentials, and at least three nodes.
    nodes, generator = max(3, edges // 64), torch.Generator().manual_seed(0)
    index = torch.randint(nodes, (2, edges), generator=generator)
    index[1, ::3] = nodes - 1
    return nodes, index.to(device)
