"""The embedded example: a generated health survey, a demonstration on it, and the speed of this machine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
