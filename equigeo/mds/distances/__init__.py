"""Embeddings of distances: dense, of landmarks, along surfaces and graphs."""
