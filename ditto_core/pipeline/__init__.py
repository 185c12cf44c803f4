"""The pipeline: what is planned before anything runs, and the drivers that run it."""
