"""Property tests draw the same examples in every run, however slow the machine is."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
