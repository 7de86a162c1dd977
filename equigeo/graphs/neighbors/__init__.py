"""Neighbour lists: normalised systems, candidates from a backend, one predicate for all."""
