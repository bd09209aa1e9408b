"""`python -m tests.support.http.stdio_server`: MCP on standard input and output for a service that runs already.

What `outlast mcp` serves, without looking for a stack; the environment says where everything is. Arguments are those of
an MCP URL: `mode=openai`, `tools=actors`.
"""

import asyncio
import os
import sys

from pydantic import SecretStr

from outlast.api.mcp.connections import selection_from
from outlast.api.mcp.stdio import LocalConnection, serve_stdio
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.worker.connection import connect
from outlast.worker.logs import configure_logging
from outlast.workflows.tools.extensions import load_extensions


async def main() -> None:
    settings = ApiSettings()
    configure_logging(settings.log_format, settings.log_level)
    load_extensions(settings.tool_modules)
    query = {name: [value] for name, value in (argument.split("=", 1) for argument in sys.argv[1:])}
    named = os.environ.get("OUTLAST_TOKEN")
    token = SecretStr(named) if named else None
    local = LocalConnection(selection_from(query, default_mode=settings.mode, environment=os.environ), token)
    await serve_stdio(Services(settings, await connect(settings, lazy=True)), local)


if __name__ == "__main__":
    asyncio.run(main())
    sys.stderr.flush()
    os._exit(0)  # The Temporal SDK's runtime threads may abort at interpreter exit.
