"""Owns every option of the data sources: name, default and check; and the key provider.

It knows neither reading nor the jar.
"""
