"""Linear maps between irreps of O(3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from equigeo.nn._irreps_argument import IrrepsLike, irreps_argument
from equigeo.nn.channel_mixing import ChannelMixing, MixingBlock
from equigeo.nn.fit_together import fit_together
from equigeo.nn.index_tables import IndexTables
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.nn.reached import check_reached
from equigeo.nn.tables import Tables
from equigeo.ops import runs_compiled
from equigeo.ops.products.block_linear import block_linear_op
from equigeo.ops.runtime.storage import computed_in
from equigeo.ops.runtime.torch_internals import autocast_active
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


class LinearInstruction(NamedTuple):
    """One block of weights, or with ``i_in == -1`` one bias."""

    i_in: int
    i_out: int
    path_shape: tuple[int, ...]
    path_weight: float


class Linear(IrrepsLayer):
    r"""Mix the multiplicities of equal irreps, as ``e3nn.o3.Linear`` does.

    .. math:: z_w = \frac{1}{\sqrt{\mathrm{fan}}} \sum_u W_{uw} x_u + b_w

    The weights are one flat vector: a row-major block ``(mul_in, mul_out)`` for each pair of equal
    irreps, in the order of the inputs and then of the outputs. Weights, biases, normalisation and
    ``state_dict`` are those of e3nn in either layout, and those of cuEquivariance where there is
    no bias.

    Parameters
    ----------
    irreps_in, irreps_out : Irreps, e3nn.o3.Irreps or str
        Representations of the two sides. Terms are not merged: ``"3x0e+7x0e"`` is normalised block
        by block.
    internal_weights : bool, optional
        Whether weights and biases are parameters; by default where they are shared.
    shared_weights : bool, optional
        Whether all samples have the same weights; True by default.
    instructions : sequence of (int, int), optional
        Pairs (term of ``irreps_in``, term of ``irreps_out``) to connect; by default all.
    biases : bool or sequence of bool
        Which output terms have a bias, or whether all scalars ``0e`` have.
    path_normalization : {"element", "path"}
        Whether fan counts all inputs that meet in an output term, or those of the block times the
        number of blocks.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term, the same on both sides.

    Attributes
    ----------
    weight, bias : Tensor, (weight_numel,) and (bias_numel,)
        Parameters, weights drawn from N(0, 1) and biases zero; empty buffers where external.
    output_mask : Tensor, (irreps_out.dim,)
        1 where an instruction or a bias arrives, 0 where the output is always zero.
    instructions : tuple of LinearInstruction
        With the final coefficient of each block.

    Raises
    ------
    ValueError
        If irreps cannot be read, an instruction joins different irreps or terms that do not exist,
        a bias is asked of something that is no scalar, options contradict each other, or no weight
        and no bias reaches the output.

    Warns
    -----
    UserWarning
        If none reaches some terms of the output: they are always zero.

    Equivariance
    ------------
    ``z(g x) = g z(x)`` for O(3), improper elements included.

    Examples
    --------
    >>> linear = Linear("4x0e + 16x1o", "8x0e + 8x1o", biases=True)
    >>> linear.weight_numel, linear.bias_numel
    (160, 8)
    >>> linear(torch.zeros(5, 52)).shape
    torch.Size([5, 32])
    """

    weight: Tensor
    bias: Tensor
    output_mask: Tensor

    def __init__(
        self,
        irreps_in: IrrepsLike,
        irreps_out: IrrepsLike,
        *,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        instructions: Sequence[tuple[int, int]] | None = None,
        biases: bool | Sequence[bool] = False,
        path_normalization: Literal["element", "path"] = "element",
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        self.irreps_in = irreps_argument("irreps_in", irreps_in, layout)
        self.irreps_out = irreps_argument("irreps_out", irreps_out, layout)
        self.shared_weights = shared_weights is not False
        self.internal_weights = (
            self.shared_weights if internal_weights is None else internal_weights
        )
        if self.internal_weights and not self.shared_weights:
            raise ValueError("internal_weights=True needs shared_weights=True, got False")
        pairs = _connect(self.irreps_in, self.irreps_out, instructions)
        self._blocks = _normalize(self.irreps_in, self.irreps_out, pairs, path_normalization)
        self._shifts = _place_biases(self.irreps_out, biases)
        self.weight_numel = sum(_sizes(self._blocks))
        self.bias_numel = sum(_sizes(self._shifts))
        mixing = _mixing_blocks(self._blocks, self.irreps_in)
        self._mixing = ChannelMixing(self.irreps_in, self.irreps_out, mixing, self.weight_numel)
        ins, reached = (self.irreps_in,), self._reached_terms()
        check_reached(type(self).__name__, ins, self.irreps_out, reached, stacklevel=2)
        self._hold("weight", torch.randn(self.weight_numel))
        self._hold("bias", torch.zeros(self.bias_numel))
        self.register_buffer("output_mask", self._reached())
        blocks, factors = _block_table(mixing, self.irreps_out)
        places = torch.arange(self.irreps_out.dim)
        slices = self.irreps_out.slices()
        terms = [slices[shift.i_out] for shift in self._shifts]
        shifted = torch.cat([places[:0], *(places[term] for term in terms)])
        self.positions = IndexTables(blocks=blocks, biases=shifted)
        self.tables = Tables(factors=factors)

    @property
    def instructions(self) -> tuple[LinearInstruction, ...]:
        """All blocks of weights, then all biases."""
        return self._blocks + self._shifts

    def forward(
        self, features: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Map features.

        Parameters
        ----------
        features : Tensor, (..., irreps_in.dim), floating
            Input.
        weight : Tensor, (..., weight_numel), optional
            In place of the internal weights; needed where there are none. Leading axes broadcast
            with those of ``features``; there are none where ``shared_weights``.
        bias : Tensor, (..., bias_numel), optional
            Likewise.

        Returns
        -------
        Tensor, (..., irreps_out.dim), dtype of ``features``
            Zero where no weight and no bias arrives.

        Raises
        ------
        TypeError
            If dtypes are not floating or differ.
        ValueError
            If weights are missing, a last axis is wrong, leading axes do not broadcast, or devices
            differ.
        """
        weight = self._choose("weight", weight, self.weight_numel)
        bias = self._choose("bias", bias, self.bias_numel)
        given = (features, weight if self.weight_numel else None, bias if self.bias_numel else None)
        batch = features.shape[:-1]
        if not fit_together(given, (self.irreps_in.dim, self.weight_numel, self.bias_numel)):
            named = self._check(features, weight, bias)
            batch = batch if weight.ndim == bias.ndim == 1 else _broadcast(named)
        if weight.ndim > 1:
            mixed = self._mix_each(features, weight, batch)
        elif features.ndim == 2:
            mixed = self._mix_rows(features, weight)
        else:
            rows = features.reshape(prod(features.shape[:-1]), self.irreps_in.dim)
            mixed = self._mix_rows(rows, weight).view(*features.shape[:-1], self.irreps_out.dim)
        if not self.bias_numel:
            return mixed
        places = self.positions["biases"]
        shift = bias.new_zeros(*bias.shape[:-1], self.irreps_out.dim)
        return mixed + shift.index_add(-1, places, bias)

    def _mix_rows(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Mix by weights that all rows share, in one op where it is compiled."""
        as_op = self.weight_numel > 0 and runs_compiled("block_linear", rows.device)
        if not as_op or autocast_active() or rows.dtype != weight.dtype:
            return self._mixing(rows, weight)
        # A module finds its modules faster than as attributes.
        positions: Any = self._modules["positions"]
        tables: Any = self._modules["tables"]
        blocks, factors = positions["blocks"], tables["factors", computed_in(rows.dtype)]
        ir_mul, dim_out = self.irreps_in.layout == "ir_mul", self.irreps_out.dim
        out: Tensor = block_linear_op(rows, weight[None], blocks, factors, dim_out, ir_mul)
        return out

    def _mix_each(self, features: Tensor, weight: Tensor, batch: torch.Size) -> Tensor:
        """Mix each sample by weights of its own."""
        shapes = [(mul, 2 * l + 1) for mul, (l, _) in self.irreps_in]
        pieces = features.split([mul * dim for mul, dim in shapes], -1)
        arriving: list[list[Tensor]] = [[] for _ in self.irreps_out]
        for ins, w in zip(self._blocks, weight.split(_sizes(self._blocks), -1), strict=True):
            mul, dim = shapes[ins.i_in]
            w = w.unflatten(-1, ins.path_shape) * ins.path_weight
            # weights mix channels only: by Schur's lemma nothing else commutes with an irrep
            if self.irreps_in.layout == "mul_ir":
                mixed = w.mT @ pieces[ins.i_in].unflatten(-1, (mul, dim))
            else:
                mixed = pieces[ins.i_in].unflatten(-1, (dim, mul)) @ w
            arriving[ins.i_out].append(mixed.flatten(-2))
        out = [features.new_zeros(*batch, 0)]
        for parts, (mul, (l, _)) in zip(arriving, self.irreps_out, strict=True):
            nothing = features.new_zeros(mul * (2 * l + 1))  # terms that no input reaches
            out.append((sum(parts[1:], parts[0]) if parts else nothing).expand(*batch, -1))
        return torch.cat(out, dim=-1)

    def _hold(self, name: str, value: Tensor) -> None:
        # As in e3nn there is always something under this name, or a state_dict would not load.
        if self.internal_weights and len(value):
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value.new_empty(0))

    def _reached_terms(self) -> set[int]:
        return {ins.i_out for ins in self.instructions if 0 not in ins.path_shape}

    def _reached(self) -> Tensor:
        reached = self._reached_terms()
        mask = [
            torch.full((mul * (2 * l + 1),), float(i in reached))
            for i, (mul, (l, _)) in enumerate(self.irreps_out)
        ]
        return torch.cat([torch.ones(0), *mask])

    def _choose(self, name: str, given: Tensor | None, numel: int) -> Tensor:
        if given is not None:
            if self.shared_weights and given.ndim != 1:
                raise ValueError(
                    f"{name} must be ({numel},), for shared_weights is True, "
                    f"got {tuple(given.shape)}"
                )
            return given
        if numel and not self.internal_weights:
            raise ValueError(f"{name} (..., {numel}) must be given: there is no internal one")
        internal: Tensor = getattr(self, name)
        return internal

    def _check(self, features: Tensor, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
        """Refuse what does not fit, but for leading axes; return what there is by name."""
        named = {"features": (features, self.irreps_in.dim)}
        named |= {"weight": (weight, self.weight_numel)} if self.weight_numel else {}
        named |= {"bias": (bias, self.bias_numel)} if self.bias_numel else {}
        for name, (value, dim) in named.items():
            if not value.is_floating_point():
                raise TypeError(f"{name} must be floating, got {value.dtype}")
            if value.ndim == 0 or value.shape[-1] != dim:
                raise ValueError(f"{name} must be (..., {dim}), got {tuple(value.shape)}")
            if value.dtype != features.dtype and not autocast_active():  # which casts matrices
                raise TypeError(
                    f"{name} must have the dtype of features, {features.dtype}, got {value.dtype}"
                )
            if value.device != features.device:
                raise ValueError(
                    f"{name} must be on the device of features, {features.device}, "
                    f"got {value.device}"
                )
        return {name: value for name, (value, _) in named.items()}

    def extra_repr(self) -> str:
        """Return what ``print(module)`` shows."""
        return f"{self.irreps_in} -> {self.irreps_out} | {self.weight_numel} weights"

    def __repr__(self) -> str:
        """Return what ``print(module)`` shows, without the tables."""
        return f"{type(self).__name__}({self.extra_repr()})"


def _broadcast(named: dict[str, Tensor]) -> torch.Size:
    """Leading axes of the output."""
    try:
        return torch.broadcast_shapes(*(value.shape[:-1] for value in named.values()))
    except RuntimeError as error:
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, value in named.items())
        raise ValueError(f"leading axes must broadcast, got {given}") from error


def _connect(
    irreps_in: Irreps, irreps_out: Irreps, pairs: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int]]:
    """Pairs of terms with the same irrep: all, or those asked for."""
    ins, outs = irreps_in.terms, irreps_out.terms
    if pairs is None:
        return [
            (i, j)
            for i, (_, ir) in enumerate(ins)
            for j, (_, other) in enumerate(outs)
            if ir == other
        ]
    for i, j in pairs:
        if not (0 <= i < len(ins) and 0 <= j < len(outs)):
            raise ValueError(
                f"instruction {i, j} must index {len(ins)} input and {len(outs)} output terms"
            )
        if ins[i][1] != outs[j][1]:
            raise ValueError(
                f"instruction {i, j} must join equal irreps, got {Irreps([ins[i]])} and "
                f"{Irreps([outs[j]])}"
            )
    return list(pairs)


def _normalize(
    irreps_in: Irreps, irreps_out: Irreps, pairs: list[tuple[int, int]], path_normalization: str
) -> tuple[LinearInstruction, ...]:
    if path_normalization not in ("element", "path"):
        raise ValueError(
            f'path_normalization must be "element" or "path", got {path_normalization!r}'
        )
    out = []
    for i, j in pairs:
        mul = irreps_in.terms[i][0]
        # independent inputs and weights of unit variance give outputs of variance fan
        summed = [irreps_in.terms[k][0] for k, target in pairs if target == j]
        fan = sum(summed) if path_normalization == "element" else mul * len(summed)
        shape = (mul, irreps_out.terms[j][0])
        out.append(LinearInstruction(i, j, shape, 1.0 if fan == 0 else fan**-0.5))
    return tuple(out)


def _place_biases(irreps: Irreps, biases: bool | Sequence[bool]) -> tuple[LinearInstruction, ...]:
    scalar = [ir == (0, 1) for _, ir in irreps]
    wanted = [biases and is_scalar for is_scalar in scalar] if isinstance(biases, bool) else biases
    if len(wanted) != len(scalar):
        raise ValueError(f"biases must have one entry per output term, {len(scalar)}: {biases}")
    for j, (bias, is_scalar) in enumerate(zip(wanted, scalar, strict=True)):
        if bias and not is_scalar:
            raise ValueError(f"only scalars 0e can have a bias, got {Irreps([irreps.terms[j]])}")
    return tuple(
        LinearInstruction(-1, j, (irreps.terms[j][0],), 1.0)
        for j, bias in enumerate(wanted)
        if bias
    )


def _mixing_blocks(
    instructions: Sequence[LinearInstruction], irreps_in: Irreps
) -> list[MixingBlock]:
    """Blocks of weights, and where they begin; those without channels are left out."""
    starts = [part.start for part in irreps_in.slices()]
    offsets = accumulate(_sizes(instructions), initial=0)
    return [
        MixingBlock(starts[ins.i_in], ins.i_out, ins.path_shape, offset, ins.path_weight)
        for ins, offset in zip(instructions, offsets, strict=False)
        if 0 not in ins.path_shape
    ]


def _block_table(blocks: Sequence[MixingBlock], irreps_out: Irreps) -> tuple[Tensor, Tensor]:
    """Blocks and their factors, as the op takes them."""
    starts = [part.start for part in irreps_out.slices()]
    rows = []
    for block in blocks:
        (mul, mul_out), (_, (l, _)) = block.shape, irreps_out.terms[block.i_out]
        rows.append([block.start, mul, starts[block.i_out], mul_out, 2 * l + 1, block.weight])
    table = torch.tensor(rows, dtype=torch.int64).view(-1, 6)
    return table, torch.tensor([block.factor for block in blocks], dtype=torch.float64)


def _sizes(instructions: Sequence[LinearInstruction]) -> list[int]:
    return [prod(ins.path_shape) for ins in instructions]
