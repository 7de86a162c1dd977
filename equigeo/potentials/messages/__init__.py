"""Messages of neighbors, called as ``messages(h, edge)``: one module per product."""
