"""Owns the commands, and everything that prints.

Must not be imported by any other package.
"""
