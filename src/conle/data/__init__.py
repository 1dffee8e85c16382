"""Catalog datasets of the project."""
