"""Privacy accounting: events describe accesses to rows, accountants price them in integer units, a budget caps them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
