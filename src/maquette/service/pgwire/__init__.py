"""The PostgreSQL door: every tool that speaks PostgreSQL's protocol 3.0 can ask, with a token as its password.

    server = await start(service, host="127.0.0.1", port=5433)

The user is the name of the analyst (`custodian` on a laptop), the database is `maquette`. All decisions are the
service's: who may ask, what it costs, what is answered.
"""

from maquette.service.pgwire.limits import Limits as Limits
from maquette.service.pgwire.starting import TlsFiles as TlsFiles, start as start
