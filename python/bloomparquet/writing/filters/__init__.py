"""Owns which columns get a Bloom filter, how large it is, how values become one, and where old ones lie."""
