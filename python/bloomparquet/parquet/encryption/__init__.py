"""Owns Parquet modular encryption: encrypted modules, the ciphers of a file, and keys."""
