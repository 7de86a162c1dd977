"""Pooling by contraction of adjacent faces, and its inverse.

``EdgePool`` scores adjacencies by attention, ``edge_selection`` chooses among them,
``cluster_limits`` takes back what would make a hub, ``contraction`` rebuilds both graphs, and
``unpool`` undoes it.
"""
