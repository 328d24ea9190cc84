"""For all tests: property tests draw the same examples everywhere, and no example is timed."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
