"""The copies of irreducible parts in features: their lengths, and factors for each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.nn.index_tables import IndexTables
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Representation


class Copies(nn.Module):
    """What features of any orthogonal representation have for each summand.

    Parameters
    ----------
    rep : Representation
        Of the features, orthogonal.

    Attributes
    ----------
    count : int
        Number of summands.

    Raises
    ------
    ValueError
        If the representation is not orthogonal, so that lengths are not invariant.

    Examples
    --------
    >>> from equigeo.reps import Irreps
    >>> copies = Copies(Irreps("2x0e + 1o"))
    >>> copies.invariants(torch.tensor([[1.0, -2.0, 0.0, 0.0, 3.0**0.5]]))
    tensor([[ 1., -2.,  1.]])
    """

    def __init__(self, rep: Representation) -> None:
        super().__init__()
        if not rep.is_orthogonal():
            raise ValueError(f"lengths of features need an orthogonal representation, got {rep}")
        with plain_tensors():
            places = [
                (positions, part.rep.is_trivial())
                for part in rep.summands()
                for positions in part.positions
            ]
            # Invariants are copies of their own, however many a summand has.
            split = [
                (single, trivial)
                for positions, trivial in places
                for single in (positions.split(1) if trivial else [positions])
            ]
            self.count = len(split)
            owner = torch.zeros(rep.dim, self.count, dtype=torch.float64)
            for k, (positions, _) in enumerate(split):
                owner[positions, k] = 1
            trivial = torch.tensor([trivial for _, trivial in split], dtype=torch.bool)
        self.tables = Tables(owner=owner)
        self.kinds = IndexTables(invariant=trivial)

    def invariants(self, x: Tensor) -> Tensor:
        r"""Invariants as they are; of others :math:`\sqrt{1 + |x|^2} - 1`, which is smooth at zero.

        Parameters
        ----------
        x : Tensor, (..., rep.dim)
            Features.

        Returns
        -------
        Tensor, (..., count)
            One number for each copy.
        """
        owner = self.tables["owner", x.dtype]
        length = (1 + x.square() @ owner).sqrt() - 1
        return torch.where(self.kinds["invariant"], x @ owner, length)

    def scale(self, x: Tensor, factors: Tensor) -> Tensor:
        """Multiply each copy by a number.

        Parameters
        ----------
        x : Tensor, (..., rep.dim)
            Features.
        factors : Tensor, (..., count)
            One number for each copy.

        Returns
        -------
        Tensor, (..., rep.dim)
            Scaled features.
        """
        return x * (factors @ self.tables["owner", x.dtype].mT)
