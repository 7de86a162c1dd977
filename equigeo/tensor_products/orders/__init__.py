"""Convolutions that mix features order by order, in the frames of edges."""
