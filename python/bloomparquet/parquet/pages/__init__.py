"""Owns page headers, and encrypted pages made plain and back."""
