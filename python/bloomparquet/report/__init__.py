"""Owns the pictures for notebooks and browsers: HTML that needs no script, no server and no other file.

Must not know plans, filters or files: it draws the names and the numbers that it is given.
"""
