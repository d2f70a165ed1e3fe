"""Privacy accounting: events describe accesses, accountants price them in integer units, a budget limits the sum."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
