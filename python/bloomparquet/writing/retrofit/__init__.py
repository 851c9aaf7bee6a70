"""Owns adding and shrinking Bloom filters in files that exist."""
