"""Frozen models, which are only evaluated: what depends on weights alone is computed once.

A radial network with its embedding and cutoff is a function of the distance, and of the pair of
species where distances are transformed. A frozen embedding passes distances on in place of its
features, and so do networks that feed a convolution, which evaluates their splines per edge.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from equigeo._core.tensors import has_hooks, plain_tensors, values_readable
from equigeo.interop.accelerated.base import BODY, Accelerated, original_name
from equigeo.interop.accelerated.edges import (
    AcceleratedConvolution,
    AcceleratedIrrepsConvolution,
    AcceleratedScatter,
    EdgeProduct,
)
from equigeo.interop.accelerated.product import AcceleratedProduct
from equigeo.interop.certificate import ModuleNote
from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached
from equigeo.nn.radial_table import RadialTable, RadialTables
from equigeo.nn.state import stateless

# Of the cutoff, below which networks are evaluated: what splines of few pieces allow.
SHORTEST = (0.05, 0.1)
REMEDY = "call equigeo.interop.restore(model) first"
# Blocks of MACE that use radial features in networks alone.
PLAIN_BLOCKS = ("RealAgnosticInteractionBlock", "RealAgnosticResidualInteractionBlock")
DENSITY_BLOCKS = (
    "RealAgnosticDensityInteractionBlock",
    "RealAgnosticDensityResidualInteractionBlock",
)


class Frozen(Accelerated):
    """Base of frozen modules, whose body may hold a table."""

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        return nn.Identity()  # which a Sequential, made of its children, may call

    def original(self, *args: Any) -> Any:
        """Compute the result of the original ``forward``."""
        if not isinstance(self, nn.Sequential):
            return super().original(*args)
        (value,) = args
        for name, part in self._modules.items():
            value = value if name == BODY else part(value)
        return value

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        raise NotImplementedError

    def train(self, mode: bool = True) -> Any:
        """Accept evaluation mode only."""
        if mode:
            raise RuntimeError(f"a frozen model cannot be trained: {REMEDY}")
        return super().train(False)

    def _load_from_state_dict(self, *args: Any, **named: Any) -> NoReturn:
        """Raise: tables would not follow. Also called for a module that holds this one."""
        raise RuntimeError(f"a frozen model cannot load a state: {REMEDY}")


class FrozenModel(Frozen):
    """A model with frozen parts, which can only be evaluated."""


class Passed(Frozen):
    """A module that passes on what it is given: a network, or what scales its input."""

    def forward(self, given: Any) -> Any:
        """Return the argument."""
        return given


class FrozenScalars(Frozen):
    """A radial network that reads its values from a table."""

    accelerated: RadialTable
    function: RadialFunction

    def forward(self, given: Tensor) -> Tensor:
        """Return the values (edges, numbers) at distances and pairs (edges, 1 or 2)."""
        places = given.unbind(1)
        if self.accelerated.covers(*places) and self.function.is_unchanged():
            return self.accelerated(*places)
        return self.function(*places)

    def uninstall(self) -> None:
        """Revert :meth:`install`."""
        super().uninstall()
        del self.function


class FrozenMaceEmbedding(Frozen):
    """``RadialEmbeddingBlock`` of MACE; cutoffs are part of the tables."""

    def forward(self, edge_lengths: Tensor, *others: Any) -> tuple[Tensor, None]:
        """Return the distances (edges, 1)."""
        return edge_lengths, None


class Occurring(nn.Module):
    """The tables of several networks, and the pairs of species that they know."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: set[int] = set()
        self.tables: list[Any] = []

    def meet(self, pairs: Tensor) -> None:  # (edges,)
        """Extend the tables by new pairs, unless values cannot be read."""
        if not values_readable(pairs):
            return
        new = set(pairs.bincount().nonzero().flatten().tolist()) - self.pairs
        if new:
            self.pairs |= new
            for table in self.tables:
                table.grow(sorted(new))


class FrozenMacePairs(Frozen):
    """``RadialEmbeddingBlock`` of MACE that transforms distances by the species of both atoms."""

    accelerated: Occurring

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        return Occurring()

    def forward(
        self, edge_lengths: Tensor, node_attrs: Tensor, edge_index: Tensor, *others: Any
    ) -> tuple[Tensor, None]:
        """Return the distances and pairs (edges, 2)."""
        species = node_attrs.argmax(1)[edge_index]
        pairs = species.amin(0) * node_attrs.shape[1] + species.amax(0)
        self.accelerated.meet(pairs)
        return torch.cat([edge_lengths, pairs[:, None].to(edge_lengths.dtype)], 1), None


class SpeciesMaps(nn.Module):
    """One linear map per species, of a product with scalars of which one is 1 and others are 0."""

    def __init__(self, product: Any) -> None:
        super().__init__()
        if any(ir.l or ir.p < 0 for _, ir in product.irreps_in2):
            raise ValueError("the second input has other components than scalars")
        self.scale = product.irreps_in2.dim**-0.5
        ends = str(product.irreps_in1), str(product.irreps_out)
        with allow_unreached():
            linear = Linear(*ends, internal_weights=False, shared_weights=True)
        self.linear = stateless(linear)

    def forward(self, x: Tensor, species: Tensor, weights: list[Tensor]) -> Tensor:
        """Map the features (nodes, irreps_in.dim) of nodes of these species (nodes,)."""
        present = species.unique().tolist()
        if len(present) == 1:
            return self._map(x, present[0], weights)
        rows = [(species == each).nonzero().squeeze(1) for each in present]
        parts = [self._map(x[at], each, weights) for at, each in zip(rows, present, strict=True)]
        return torch.cat(parts).index_select(0, torch.cat(rows).argsort())

    def _map(self, x: Tensor, species: int, weights: list[Tensor]) -> Tensor:
        chosen = torch.cat([weight[:, species].flatten() for weight in weights])
        return self.linear(x, chosen * self.scale)


class FrozenSkip(Frozen):
    """``skip_tp`` of MACE, which weights the features of a node by its species."""

    accelerated: SpeciesMaps
    weight: Tensor
    weight_views: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        body = SpeciesMaps(module)
        x, y = module.example(4)
        chosen = torch.arange(len(x), device=x.device) % y.shape[1]
        hot = nn.functional.one_hot(chosen, y.shape[1]).to(y.dtype)
        got, want = body(x, chosen, list(module.weight_views())), module.original(x, hot)
        if not torch.allclose(got, want, atol=1e-4, rtol=1e-4):
            raise ValueError("it is no linear map per species")
        return body

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the features (nodes, irreps_out.dim), for species one-hot in y."""
        readable = values_readable(y) and x.dtype == self.weight.dtype and len(x)
        if not readable or not bool((y.amax(1) == 1).all() & (y.count_nonzero(1) == 1).all()):
            return self.original(x, y)
        return self.accelerated(x, y.argmax(1), list(self.weight_views()))


class FrozenNequipEmbedding(Frozen):
    """``BesselEdgeLengthEncoding`` of NequIP."""

    edge_invariant_field: str
    norm_length_field: str
    cutoff: Any
    _output_dtype: torch.dtype

    def forward(self, data: dict[str, Tensor]) -> dict[str, Tensor]:
        """Store distances relative to the cutoff (edges, 1) in place of their embedding."""
        lengths = data[self.norm_length_field]
        data["edge_cutoff"] = self.cutoff(lengths).to(self._output_dtype)
        data[self.edge_invariant_field] = lengths
        return data


class FrozenSevennEmbedding(Frozen):
    """``EdgeEmbedding`` of SevenNet, which also evaluates harmonics."""

    spherical: Any

    def forward(self, data: Any) -> Any:
        """Store distances (edges, 1) in place of their embedding."""
        vectors = data["edge_vec"]
        lengths = torch.linalg.norm(vectors, dim=-1)
        data["edge_length"], data["edge_embedding"] = lengths, lengths[:, None]
        data["edge_attr"] = self.spherical(vectors)
        return data


class RadialFunction:
    """Values of a network as a function of the distance, by the original modules."""

    pairs = 0  # of species on which values also depend

    def __init__(
        self,
        embedding: Sequence[nn.Module],
        network: nn.Module,
        end: float,
        breaks: Sequence[float] = (),  # where the embedding is not smooth
    ) -> None:
        self.embedding, self.network = embedding, network
        self.ends = (*breaks, end)
        self.values = [tensor.detach().clone() for tensor in self._tensors()]

    def _tensors(self) -> Iterator[Tensor]:
        for module in self.embedding:
            yield from module.parameters()
            yield from module.buffers()
        yield from self.network.parameters()

    def is_unchanged(self) -> bool:
        """Return whether weights are those of the start, or cannot be read."""
        pairs = zip(self._tensors(), self.values, strict=True)
        return all(not values_readable(now) or now.equal(then.to(now)) for now, then in pairs)

    def __call__(self, lengths: Tensor) -> Tensor:  # (edges,) to (edges, values)
        raise NotImplementedError

    def double(self) -> RadialFunction:
        """Return a copy in float64 on the CPU."""
        found = copy.deepcopy(self)
        for module in (*found.embedding, found.network):
            module.to("cpu", torch.float64)
        return found


class MaceFunction(RadialFunction):
    """Of distances, and of a pair of species if distances are transformed: a * species + b."""

    atomic_numbers: Any = None

    def of_pairs(self, atomic_numbers: Tensor) -> None:
        """Take a pair as second argument from now on."""
        self.atomic_numbers, self.pairs = atomic_numbers, len(atomic_numbers) ** 2

    def __call__(self, lengths: Tensor, pairs: Tensor | None = None) -> Tensor:
        given: tuple[Tensor | None, ...] = (None, None, None)
        if pairs is not None:
            species, count = self.atomic_numbers.to(lengths.device), len(self.atomic_numbers)
            each = torch.eye(count, dtype=lengths.dtype, device=lengths.device)
            given = each, torch.stack([pairs // count, pairs % count]).long(), species
        features, cutoff = _original(self.embedding[0], lengths[:, None], *given)
        values: Tensor = _original(self.network, features)
        return values if cutoff is None else values * cutoff


class NequipFunction(RadialFunction):
    """Of distances relative to the cutoff."""

    def __call__(self, lengths: Tensor) -> Tensor:
        encoding: Any = self.embedding[0]
        data = {encoding.norm_length_field: lengths[:, None]}
        for module in self.embedding:
            data = _original(module, data)
        return _original(self.network, data[encoding.edge_invariant_field])

    def double(self) -> RadialFunction:
        found = super().double()
        found.embedding[0]._output_dtype = torch.float64  # type: ignore[assignment]
        return found


class SevennFunction(RadialFunction):
    """Of distances."""

    def __call__(self, lengths: Tensor) -> Tensor:
        embedding: Any = self.embedding[0]
        cutoff = embedding.cutoff_function(lengths)
        features = embedding.basis_function(lengths) * cutoff[:, None]
        return _original(self.network, features)


def _original(module: Any, *args: Any) -> Any:
    return module.original(*args) if isinstance(module, Accelerated) else module(*args)


class Radial(NamedTuple):
    """A network to freeze, and the convolution that it feeds, if any."""

    function: RadialFunction
    conv: Any


def is_part(module: nn.Module) -> bool:
    """Return whether a module is frozen with others that are not inside of it."""
    inside = set(module.modules())
    functions = [part.function for part in inside if isinstance(part, FrozenScalars)]
    functions += [part.network for part in inside if isinstance(part, EdgeProduct) and part.network]
    alone = isinstance(module, Frozen) and not isinstance(module, FrozenModel)
    return alone or not all(inside.issuperset(function.embedding) for function in functions)


@plain_tensors()
def freeze(model: nn.Module) -> list[ModuleNote]:
    """Freeze an accelerated model in place, and return a note per radial network."""
    paths = {module: path for path, module in model.named_modules()}
    notes = []
    for kinds, group in _groups(model):
        if isinstance(group[0].function.embedding[0], Frozen):  # before
            continue
        networks = [radial.function.network for radial in group]
        names = [(paths[network], original_name(network)) for network in networks]
        try:
            tables = [_table(radial.function) for radial in group]
        except ValueError as error:  # all networks read the embedding, or none
            notes += [ModuleNote(*name, f"is evaluated: {error}") for name in names]
            continue
        for radial, table, name in zip(group, tables, names, strict=True):
            _install(radial, table)
            by_pair = isinstance(table, RadialTables)
            one: Any = table.table if by_pair else table
            text = f"splines of {one.pieces} pieces, error {one.error:.0e}"
            text += ", one for each pair of species that occurs" if by_pair else ""
            notes.append(ModuleNote(*name, text))
        for module, kind in zip(group[0].function.embedding, kinds, strict=True):
            body = kind.body_of(module)
            kind.install(module, body)
            if isinstance(body, Occurring):
                body.tables = tables
    _freeze_skips(model)
    if any(isinstance(module, Frozen) for module in model.modules()):
        model.eval()
        if isinstance(model, Accelerated):
            model.uninstall()
        FrozenModel.install(model, FrozenModel.body_of(model))
    return notes


def _table(function: RadialFunction) -> RadialTable | RadialTables:
    parameter = next(function.network.parameters())
    if parameter.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"it is {parameter.dtype}")
    parts = (function.network, *function.embedding)
    if any(has_hooks(module) for part in parts for module in part.modules()):
        raise ValueError("it has hooks")
    exact: Any = function.double()

    def tabulated(shortest: float) -> RadialTable | RadialTables:
        ends = (shortest * function.ends[-1], *function.ends)
        if function.pairs:
            return RadialTables(exact, ends, parameter.dtype, function.pairs)
        return RadialTable.fit(exact, ends, parameter.dtype)

    try:
        table = tabulated(SHORTEST[0])
    except ValueError:
        table = tabulated(SHORTEST[1])
    return table.to(parameter.device)


def _freeze_skips(model: nn.Module) -> None:
    for module in list(model.modules()):
        skip: Any = getattr(module, "skip_tp", None)
        of_mace = _named(module, "mace.modules", "InteractionBlock")
        if of_mace and isinstance(skip, AcceleratedProduct) and not has_hooks(skip):
            with suppress(ValueError):
                body = FrozenSkip.body_of(skip)
                skip.uninstall()
                FrozenSkip.install(skip, body)


def _install(radial: Radial, table: RadialTable | RadialTables) -> None:
    network: Any = radial.function.network
    if isinstance(network, Accelerated):
        network.uninstall()
    if radial.conv is None:
        FrozenScalars.install(network, table)
        network.function = radial.function
    else:
        Passed.install(network, Passed.body_of(network))
        radial.conv.accelerated.freeze(table, radial.function)


Groups = Iterator[tuple[tuple[type[Frozen], ...], list[Radial]]]


def _groups(model: nn.Module) -> Groups:
    """Return the frozen classes of an embedding's modules, and all networks that read it."""
    for module in model.modules():
        if _named(module, "mace.modules", "MACE"):
            yield from _mace(module)
    yield from _nequip(model)
    yield from _sevenn(model)


def _mace(model: Any) -> Groups:
    embedding = model.radial_embedding
    blocks = list(model.interactions)
    names = {type(block).__name__ for block in blocks}
    has_density = not names.isdisjoint(DENSITY_BLOCKS)
    known = names.issubset((*PLAIN_BLOCKS, *DENSITY_BLOCKS))
    fused = all(isinstance(block.conv_tp, AcceleratedConvolution) for block in blocks)
    cut = getattr(embedding, "apply_cutoff", True)  # else densities are multiplied by it
    if not (known and fused) or (has_density and not cut):
        return
    by_pair, group = hasattr(embedding, "distance_transform"), []

    def function(network: nn.Module) -> MaceFunction:
        found = MaceFunction([embedding], network, float(model.r_max))
        if by_pair:
            found.of_pairs(model.atomic_numbers)
        return found

    for block in blocks:
        group.append(Radial(function(block.conv_tp_weights), block.conv_tp))
        if hasattr(block, "density_fn"):
            group.append(Radial(function(block.density_fn), None))
    yield (FrozenMacePairs if by_pair else FrozenMaceEmbedding,), group


def _nequip(model: nn.Module) -> Groups:
    found = [m for m in model.modules() if _named(m, "nequip.nn", "BesselEdgeLengthEncoding")]
    blocks: list[Any] = [m for m in model.modules() if _named(m, "nequip.nn", "InteractionBlock")]
    if len(found) != 1 or not blocks:
        return
    encoding: Any = found[0]
    behind = [
        m
        for m in model.modules()
        if encoding.edge_invariant_field in (getattr(m, "in_field", ""), getattr(m, "field", ""))
    ]
    scales = all(
        _named(m, "nequip.nn", "ApplyFactor") and m.in_field == m.out_field for m in behind
    )
    if scales and all(isinstance(block.tp_scatter, AcceleratedScatter) for block in blocks):
        embedding = [encoding, *behind]
        yield (
            (FrozenNequipEmbedding, *[Passed] * len(behind)),
            [
                Radial(NequipFunction(embedding, block.edge_mlp, 1.0), block.tp_scatter)
                for block in blocks
            ],
        )


def _sevenn(model: nn.Module) -> Groups:
    found = [m for m in model.modules() if _named(m, "sevenn.nn", "EdgeEmbedding")]
    convs = [m for m in model.modules() if _named(m, "sevenn.nn", "IrrepsConvolution")]
    fused = [m for m in convs if isinstance(m, AcceleratedIrrepsConvolution)]
    if len(found) != 1 or len(fused) < len(convs):
        return
    embedding: Any = found[0]
    cutoff = embedding.cutoff_function
    end = getattr(cutoff, "cutoff_length", None) or getattr(cutoff, "r_cut", None)
    breaks = [cutoff.r_on] if hasattr(cutoff, "r_on") else []  # a step of its second derivative
    if fused and end and all(conv.key_weight_input == "edge_embedding" for conv in fused):
        yield (
            (FrozenSevennEmbedding,),
            [Radial(SevennFunction([embedding], m.weight_nn, end, breaks), m) for m in fused],
        )


def _named(module: nn.Module, library: str, name: str) -> bool:
    return any(
        cls.__name__ == name and cls.__module__.startswith(library) for cls in type(module).__mro__
    )
