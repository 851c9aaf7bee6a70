"""Owns the answer to "does a Bloom filter on this column pay?", from footers and a sample of values."""
