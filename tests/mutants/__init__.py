"""Mutation testing of the code that decides which row groups are skipped."""
