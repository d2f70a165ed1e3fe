"""The embedded example: a generated health survey, the story told on it, and how fast this machine is."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
