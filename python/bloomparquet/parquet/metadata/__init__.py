"""Owns the footer: schema, row groups, column chunks."""
