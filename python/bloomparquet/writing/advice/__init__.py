"""Owns the decision whether Bloom filters of a column pay, from footers and a sample of values."""
