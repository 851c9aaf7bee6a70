"""Owns the split-block Bloom filter: its bits, its hash, its header, and its bytes in a file."""
