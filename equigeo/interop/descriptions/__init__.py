"""What a module computes, in terms that every library shares, and modules built from that."""
