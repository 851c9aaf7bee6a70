"""Owns the commands, and everything that prints.

Nothing else may import this room.
"""
