"""Measurements: what was run, on what, and what came out."""
