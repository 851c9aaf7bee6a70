"""Benchmarks: ``python -m tests.bench --help``."""
