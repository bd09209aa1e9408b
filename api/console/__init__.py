"""The console: pages for people at `/console/`, made by the server from the services that the REST routes use.

Each module has the pages of one subject: functions that give a template what it shows. `framework.py` has the rest.
"""

from importlib.resources import files

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from outlast.api.console import (
    approvals,
    batches,
    login,
    money,
    outputs,
    overview,
    schedules,
    servers,
    sessions,
    system,
    task,
    tools,
    webhooks,
)
from outlast.api.console.framework import CONSOLE, HEADERS, Console, Section
from outlast.api.http.browser_sessions import BrowserSessions
from outlast.api.http.documents import Document, route_of
from outlast.api.services import Services

SECTIONS: tuple[Section, ...] = (
    overview.section,
    task.section,
    approvals.section,
    batches.section,
    schedules.section,
    sessions.section,
    webhooks.section,
    money.section,
    outputs.section,
    tools.section,
    servers.section,
    system.section,
)
"""In the order of the navigation."""
_MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_OWN = files("outlast.api.console") / "static"
_THEME = files("outlast.api") / "mcp" / "widgets" / "theme.css"
"""The look of the pages that chats show, too."""


def install_console(app: FastAPI, services: Services, sessions: BrowserSessions) -> None:
    """Serve the console, and send browsers from `/` to it."""
    console = Console(services, sessions, SECTIONS)
    app.router.routes.extend(console.routes())
    app.router.routes.extend(login.routes(console))
    for file in (*_OWN.iterdir(), _THEME):
        media_type = _MEDIA_TYPES["." + file.name.rpartition(".")[2]]
        app.router.routes.append(
            route_of(f"{CONSOLE}/static/{file.name}", Document(file.read_bytes(), media_type, HEADERS))
        )
    for path in ("/", CONSOLE):
        app.router.routes.append(Route(path, _to_console, methods=["GET"], include_in_schema=False))


async def _to_console(request: Request) -> Response:
    """Send a browser to the console. Programs get a 404 for `/`, as before."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return RedirectResponse("console/", status_code=303)
