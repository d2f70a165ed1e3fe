"""Who points at the error: private distinguishers through the curator's doors, and a solver for public data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
