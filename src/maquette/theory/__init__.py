"""Every bound as a function, and `plan`: which mechanism, what error, how many rows.

Modules by topic: `noise`, `selection`, `net`, `updates` (T of every update algorithm), `offline` and `online` (the
iterative construction), `composition`, `holdout` and `transfer` (reusing a sample). A bound takes public numbers and
returns a fraction of rows; it reads no data and costs nothing. Arguments outside their range are refused.
Codes such as erratum A1 name the corrections to the published statements in Mechanisms §13.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
