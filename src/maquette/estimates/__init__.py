"""What measurements say together: residuals, evidence, fits, and how a budget is split among measurements."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
