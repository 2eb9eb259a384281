"""Property tests on a shared machine: how long one example takes says nothing."""

from hypothesis import settings

settings.register_profile("specdash", deadline=None)
settings.load_profile("specdash")
