"""Tensor fields from scalar channels on a group."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.affine.samples.check_samples import check_samples
from equigeo.graphs.inputs import kind_of
from equigeo.groups import GroupSamples
from equigeo.reps import Representation, Trivial


class TensorReadout(nn.Module):
    r"""Integral of a representation against features, :math:`\int_H \rho(h)\, F(x, h)\, d\mu_H(h)`.

    The input ``F(g^-1 (x, h))`` gives ``rho(A) out(g^-1 x)`` for ``g = (b, A)``, up to the
    quadrature.

    Parameters
    ----------
    rep_out : Representation
        Linear, of a group that the group of the samples maps to, such as ``TensorRep(SL(2), up=1)``
        for vectors or ``TensorRep(GLPlus(2), up=0, density=-1.0)`` for densities of mass.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> from equigeo.reps import TensorRep
    >>> layer = TensorReadout(TensorRep(SO(2), up=1))
    >>> layer(torch.rand(2, 6, 8, 9, 9), equidistant_rotations(8)).shape  # 3 vectors
    torch.Size([2, 3, 9, 9, 2])
    """

    def __init__(self, rep_out: Representation) -> None:
        super().__init__()
        if not rep_out.is_linear:
            raise ValueError(f"a read-out needs a linear representation, got {rep_out}")
        self.rep_in, self.rep_out = Trivial(rep_out.group, rep_out.dim), rep_out

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Integrate ``(B, C * rep_out.dim, N, *S)`` to tensors ``(B, C, *S, rep_out.dim)``.

        The components of a tensor are adjacent channels.
        """
        check_samples(samples)
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        dim = self.rep_out.dim
        if x.ndim < 3 or x.shape[1] % dim or x.shape[2] != len(samples):
            raise ValueError(
                f"features must be (B, C * {dim}, {len(samples)}, *S), got {tuple(x.shape)}"
            )
        if not samples.group.maps_to(self.rep_out.group):
            raise ValueError(f"samples must be of {self.rep_out.group}, got {samples.group}")
        rep = self.rep_out.restrict(samples.group)
        # With h = A h', rho(h) F(A^-1 h) is rho(A) rho(h') F(h'): the sum transforms by rho(A).
        matrices = (rep.matrix(samples.h) * samples.mean_weight[:, None, None]).to(x)
        return torch.einsum("ade,bcea...->bc...d", matrices, x.unflatten(1, (-1, dim)))
