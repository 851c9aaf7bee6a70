"""Owns the split-block Bloom filter: its bits, its hash, its header, where it lies in a file."""
