"""The Python client: a remote table with the methods, answers and errors of a local session.

`connect` gives a `RemoteSession`, `connect_async` its asynchronous twin; `dbapi` is DB-API 2.0 on top.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
