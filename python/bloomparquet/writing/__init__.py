"""Owns files with Bloom filters of the right size, written whole or not at all.

Must not print anything: the command line does.
"""
