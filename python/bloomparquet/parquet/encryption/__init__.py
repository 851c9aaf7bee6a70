"""Owns Parquet's modular encryption: AES modules, and the ciphers of one file."""
