"""Conversion of potentials to metatomic, as programs in TorchScript, and to TorchSim."""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from equigeo._core.tensors import record_program
from equigeo.graphs import EdgeIndex, VerletList
from equigeo.graphs.verlet_list import DEFAULT_SKIN
from equigeo.interop.optional import require
from equigeo.potentials import AtomicBatch, LastLayerUncertainty, MessagePassingPotential
from equigeo.potentials.calculator import check_members
from equigeo.potentials.export import check_apart, check_exportable, example_inputs
from equigeo.potentials.frozen import frozen

_INFIX: Final = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//"}


def to_metatomic(
    model: MessagePassingPotential,
    metadata: Any = None,
    *,
    uncertainty: LastLayerUncertainty | None = None,
) -> Any:
    """Convert a potential to a model for engines of metatomic, including C++ without Python.

    The engine computes neighbor lists and differentiates energies once, by positions and cells:
    the model contains gradients. Second derivatives and energies per atom are not available, and
    raise if requested. Engines load the compiled kernels, which
    ``save(path, collect_extensions=folder)`` copies; in Python ``import equigeo.ops`` loads them or
    their reference implementations.

    Parameters
    ----------
    model : MessagePassingPotential
        In eval mode, float32 or float64; weights are copied.
    metadata : metatomic.torch.ModelMetadata, optional
        Name, authors and references.
    uncertainty : LastLayerUncertainty, optional
        Of the potential: adds the output "energy_uncertainty", of which engines warn.

    Returns
    -------
    metatomic.torch.AtomisticModel
        For the device of the potential: "energy" of systems in eV, lengths in angstrom, in float64
        for any dtype of the weights. "energy_uncertainty" is the standard deviation of the energy
        of a system or, per atom, of its share. ``save`` writes a file.

    References
    ----------
    https://docs.metatensor.org/metatomic

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((1, 8), channels=2, lmax_edge=1)).eval()
    >>> exported = to_metatomic(model)  # doctest: +SKIP
    >>> exported.capabilities().atomic_types  # doctest: +SKIP
    [1, 8]
    """
    dtype = check_exportable(model)
    check_members((model,), uncertainty)
    metatomic = require("metatomic.torch", "metatomic-torch")
    # Its annotations are types of metatomic, which is optional.
    from equigeo.interop.metatomic_energy import MetatomicEnergy

    function, inputs = _energies_and_slopes(model, dtype, uncertainty), _example(model)
    # Tables that are made on first use must not be made while a program is recorded: they are kept.
    function(*inputs)
    recorded = record_program(function, inputs)
    recorded.graph.eliminate_dead_code()
    config = model.config
    options = metatomic.NeighborListOptions(cutoff=config.cutoff, full_list=True, strict=True)
    energy = metatomic.ModelOutput(unit="eV", sample_kind="system", explicit_gradients=[])
    outputs = {"energy": energy}
    if uncertainty is not None:
        outputs["energy_uncertainty"] = metatomic.ModelOutput(unit="eV", sample_kind="atom")
    capabilities = metatomic.ModelCapabilities(
        outputs=outputs,
        atomic_types=list(config.species),
        interaction_range=config.layers * config.cutoff,
        length_unit="angstrom",
        supported_devices=[model.embedding.weight.device.type],
        dtype="float64",
    )
    scale = math.nan if uncertainty is None else uncertainty.energy_scale.item() or math.nan
    module = MetatomicEnergy(script_program(recorded), options, len(config.species), scale).eval()
    given = metatomic.ModelMetadata() if metadata is None else metadata
    return metatomic.AtomisticModel(module, given, capabilities)


def _energies_and_slopes(
    model: MessagePassingPotential,
    dtype: torch.dtype,
    uncertainty: LastLayerUncertainty | None = None,
) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function of tensors with checks that are recorded with it."""
    # It returns energies, slopes, whitened features (none without an uncertainty) and species.
    model = copy.deepcopy(frozen(model)).requires_grad_(False)

    def function(
        numbers: Tensor, weights: Tensor, edge_index: Tensor, vectors: Tensor
    ) -> tuple[Tensor, ...]:
        features: list[Tensor] = []
        v = vectors.detach().requires_grad_(True)
        check_apart(vectors)
        edges = EdgeIndex.from_valid_edges(edge_index.clone(), *[numbers.shape[0]] * 2)
        energies = model.energies_of_edges(
            numbers, edges, v.to(dtype), features=None if uncertainty is None else features
        )
        (slopes,) = torch.autograd.grad((weights * energies).sum(), v)
        species = model.species_of(numbers)
        white = energies.detach()[:, None][:, :0]
        if uncertainty is not None:
            rows = features[0].detach()
            white = torch.zeros_like(rows)
            for k, whitening in enumerate(uncertainty.whitening.to(rows.device)):
                white = torch.where((species == k)[:, None], rows @ whitening.mT, white)
        return energies.detach(), slopes, white, species

    return function


def _example(model: MessagePassingPotential) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return example inputs for recording, with distinct sizes of at least 4."""
    numbers, positions, _, edges, _ = example_inputs(model)
    vectors = positions[edges[1]] - positions[edges[0]]
    return numbers, torch.ones_like(positions[:, 0]), edges, vectors


def script_program(
    program: GraphModule,  # calls of ATen and custom ops between tensors, from record_program
) -> torch.jit.ScriptModule:
    """Convert a recorded program to TorchScript, with weights and tables as buffers."""
    # Modules of one class with buffers of the same names would share their methods.
    holder, lines = type("Program", (nn.Module,), {})(), []
    # Sizes are computed by the script as well. Tensors are created on the device of the first
    # input.
    inputs = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    for node in program.graph.nodes:
        if node.op == "get_attr":
            holder.register_buffer(node.name, getattr(program, node.target).detach().clone())
            lines.append(f"{node.name} = self.{node.name}")
        elif node.op == "call_function":
            lines += _statement(node, inputs[0])
        elif node.op == "output":
            (results,) = node.args
            lines.append(f"return ({', '.join(_text(x, inputs[0]) for x in results)},)")
            types = ", ".join(["Tensor"] * len(results))
        elif node.op != "placeholder":
            raise ValueError(f"a program must call functions, got {node.format_node()}")
    arguments = "".join(f", {name}: Tensor" for name in inputs)
    body = "".join(f"    {line}\n" for line in lines)
    with warnings.catch_warnings():
        # PyTorch recommends formats that these engines do not read.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        scripted: torch.jit.ScriptModule = torch.jit.script(holder.eval())
    scripted.define(f"def forward(self{arguments}) -> Tuple[{types}]:\n{body}")
    return scripted


def _statement(node: Node, like: str) -> Iterator[str]:
    """Return one call, with results named like the node."""
    target: Any = node.target
    if target is operator.getitem:
        yield f"{node.name} = {node.args[0]}[{node.args[1]}]"
    elif target is torch.ops.aten.sym_size.int:
        yield f"{node.name} = {node.args[0]}.size({node.args[1]})"
    elif target is torch.ops.aten._assert_async.msg:
        # As an op without results it would be left out as dead code.
        yield f"assert bool({node.args[0]}), {node.args[1]!r}"
    elif target in _INFIX:
        left, right = (_text(x, like) for x in node.args)
        yield f"{node.name} = {left} {_INFIX[target]} {right}"
    elif isinstance(target, torch._ops.OpOverload):
        call = f"torch.ops.{target.namespace}.{target._opname}({', '.join(_given(node, like))})"
        yield f"{node.name} = {call}" if target._schema.returns else call
    else:
        raise ValueError(f"a program must call ops, got {node.format_node()}")


def _given(node: Node, like: str) -> Iterator[str]:
    """Return the arguments of an op; their types and names determine the overload."""
    target: Any = node.target
    for k, argument in enumerate(target._schema.arguments):
        if argument.kwarg_only and argument.name in node.kwargs:
            yield f"{argument.name}={_text(node.kwargs[argument.name], like)}"
        elif not argument.kwarg_only and k < len(node.args):
            text, kind = _text(node.args[k], like), str(argument.type)
            # An empty list has no type, and one of tensors is none of optional tensors.
            needs_type = text == "[]" or (kind == "List[Optional[Tensor]]" and text != "None")
            yield f"torch.jit.annotate({kind}, {text})" if needs_type else text
        elif not argument.kwarg_only and argument.name in node.kwargs:
            raise ValueError(f"a program must give {argument.name} of {target} by position")


def _text(value: Any, like: str) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(x, like) for x in value)}]"
    if isinstance(value, torch.device):
        return f"{like}.device"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return str(value) if isinstance(value, (torch.dtype, torch.layout)) else repr(value)


def to_torch_sim(
    model: MessagePassingPotential,
    *,
    stress: bool = True,
    skin: float = DEFAULT_SKIN,
    backend: str = "auto",
    uncertainty: LastLayerUncertainty | None = None,
) -> Any:
    """Convert a potential to a model for TorchSim.

    Parameters
    ----------
    model : MessagePassingPotential
        Shared; its weights determine device and dtype.
    stress : bool
        Whether to compute stresses; later ``compute_stress`` of the result.
    skin, backend
        Neighbor lists, see :class:`equigeo.graphs.VerletList`; skin in angstrom.
    uncertainty : LastLayerUncertainty, optional
        Of the potential: also compute "energy_uncertainty" (systems,) in eV and
        "forces_uncertainty" (atoms,) of force components in eV/angstrom.

    Returns
    -------
    torch_sim.models.interface.ModelInterface
        Computes "energy" (systems,) in eV, "forces" (atoms, 3) in eV/angstrom and "stress"
        (systems, 3, 3) in eV/angstrom^3, detached and in the dtype of the weights: in float32,
        energies of thousands of eV are rounded to 1 meV. Stresses are NaN unless three axes are
        periodic. Cells of states have lattice vectors as columns.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((14,), channels=4)).double().eval()
    >>> import ase.build, torch_sim  # doctest: +SKIP
    >>> silicon = ase.build.bulk("Si")  # doctest: +SKIP
    >>> results = torch_sim.static(silicon, to_torch_sim(model))  # doctest: +SKIP
    """
    if not isinstance(model, MessagePassingPotential):
        raise TypeError(f"model must be a MessagePassingPotential, got {type(model).__name__}")
    interface = require("torch_sim.models.interface", "torch-sim-atomistic").ModelInterface
    return _class_of(interface)(model, stress, skin, backend, uncertainty)


@cache
def _class_of(interface: type) -> Any:
    """Return a subclass of the base class, which is imported on demand."""
    return type("TorchSimModel", (_TorchSimModel, interface), {"__module__": __name__})


class _TorchSimModel(nn.Module):
    """The required interface, with precedence over the defaults of TorchSim."""

    compute_forces = True
    compute_stress = True

    def __init__(
        self,
        model: MessagePassingPotential,
        stress: bool,
        skin: float,
        backend: str,
        uncertainty: LastLayerUncertainty | None,
    ) -> None:
        super().__init__()
        self.model = model
        self.uncertainty = uncertainty
        self.compute_stress = stress
        self.verlet = VerletList(model.config.cutoff, skin, backend=backend)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by constructor arguments: the class has no name in this module."""
        skin, backend = self.verlet.skin, self.verlet.backend
        options: dict[str, Any] = {"stress": self.compute_stress, "uncertainty": self.uncertainty}
        make = partial(to_torch_sim, skin=skin, backend=backend, **options)
        return make, (self.model,), {"compute_forces": self.compute_forces}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.compute_forces = state["compute_forces"]

    @property
    def device(self) -> torch.device:
        return self.model.embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.embedding.weight.dtype

    def forward(self, state: Any, **_: Any) -> dict[str, Tensor]:
        given = state.__getitem__ if isinstance(state, Mapping) else partial(getattr, state)
        fields = ("atomic_numbers", "positions", "cell", "pbc", "system_idx")
        batch = self._batch(*map(given, fields))
        with torch.no_grad():  # derivatives are there all the same
            wanted = {"forces": self.compute_forces, "stress": self.compute_stress}
            out = frozen(self.model)(batch, **wanted, features=self.uncertainty is not None)
            both = (None, None) if self.uncertainty is None else self.uncertainty(out, batch)
        found = {"energy": out.energy, "forces": out.forces, "stress": out.stress}
        found |= zip(("energy_uncertainty", "forces_uncertainty"), both, strict=True)
        return {name: x.detach().to(self.dtype) for name, x in found.items() if x is not None}

    def _batch(
        self,
        numbers: Tensor,
        positions: Tensor,
        cell: Tensor,
        pbc: bool | Tensor,
        system_idx: Tensor | None,
    ) -> AtomicBatch:
        """Build the edges of a state with column cells and shared periodic axes."""
        self.model.species_of(numbers.to(self.device))  # before any list is built
        index = torch.zeros_like(numbers) if system_idx is None else system_idx
        systems = cell.reshape(-1, 3, 3)
        counts = torch.bincount(index, minlength=len(systems)).tolist()
        if len(counts) != len(systems) or bool((index.diff() < 0).any()):
            raise ValueError(
                f"system_idx must ascend and be below the number of cells, {len(systems)}, got "
                f"{index.tolist()}"
            )
        axes = torch.as_tensor(pbc, dtype=torch.bool).cpu().expand(len(counts), 3)
        ptr = torch.tensor([0, *accumulate(counts)], device="cpu")
        x, cells = positions.detach().double(), systems.mT.detach().double()
        # Searched on the device of the state.
        listed = self.verlet.update(x, cells, axes, ptr=ptr)
        given = numbers.long(), x, cells, axes, listed.edge_index, listed.shifts, index.long(), ptr
        return AtomicBatch(*given, listed.cutoff, self.dtype).to(self.device)
