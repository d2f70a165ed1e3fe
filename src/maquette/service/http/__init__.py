"""The HTTP door: a thin face of the engine room. `make_app(service)` is the whole of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
