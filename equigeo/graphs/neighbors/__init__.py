"""Neighbour lists: one definition of the edges, several libraries that look for candidates.

Around every backend stands the same algorithm: a system is brought into a form that no library has
trouble with (:mod:`~equigeo.graphs.neighbors.search_box`), the backend lists candidates within a
slightly larger cut-off, and one predicate on the positions that the caller gave decides which of
them are edges, in one order (:mod:`~equigeo.graphs.neighbors.edge_search`). So the edges are those
of :func:`equigeo.graphs.neighbor_list`'s definition, whoever lists them.
"""
