"""`python -m tests.contract.peer.stdio.outlast_mcp`: `outlast mcp` with its flags and variables, on a running service.

It looks for no stack and starts none; the environment says where everything is.
"""

import os
import sys
from collections.abc import Mapping

from outlast.api.mcp.stdio import serve_stdio
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.cli.commands import mcp
from outlast.cli.show.output import Output
from outlast.worker.connection import connect
from outlast.worker.logs import configure_logging


async def serve(_output: Output, _stack: Mapping[str, object], query: Mapping[str, str], token: str | None) -> None:
    settings = ApiSettings()
    configure_logging(settings.log_format, settings.log_level)
    services = Services(settings, await connect(settings, lazy=True))
    await serve_stdio(services, mcp.connection_of(query, token, settings))
    sys.stderr.flush()
    os._exit(0)  # The Temporal SDK's runtime threads may abort at interpreter exit.


if __name__ == "__main__":
    mcp.serve = serve
    mcp.app()
