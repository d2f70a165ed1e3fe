"""The service: tables that people connect to. One engine room (`Service`, `ServedTable`), and thin doors to it.

The doors are `service.http` (the HTTP API), `service.pgwire` (the PostgreSQL protocol), `service.console` (the pages)
and `service.client` (Python, over HTTP). A door translates; it decides nothing. Who may do what, what is charged and
what is written down is decided in the engine room, the same for every door.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
