"""Owns the Python side of the jar: the calls through py4j, the planner process, and its protocol.

It does not know the Python data source.
"""
