"""Owns the Bloom filters of a file: their columns and sizes, building them from values, and locating old ones."""
