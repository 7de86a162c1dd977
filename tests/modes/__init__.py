"""Every public layer and op in every mode of PyTorch: one table, of which no row can be left out."""
