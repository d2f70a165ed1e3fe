"""The report: what was published, at what price, and how accurate it is, as one page.

Everything here is post-processing of what the curator released: it reads certificates, ledgers, models and evidence,
charges nothing and never touches a row. The one exception: rows given as `test_data`, which protect nobody.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
