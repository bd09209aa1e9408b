"""Logging in with an API key, and out."""

from collections.abc import Iterator

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from outlast.api.audit.records import AuditEvent, set_key
from outlast.api.console.framework import Console, Form
from outlast.api.errors import ApiError, BadRequest
from outlast.api.http.browser_sessions import path_to_console, require_own_page

_MAX_FORM_BYTES = 16_384


def routes(console: Console) -> Iterator[Route]:
    """The routes of the login page and of its forms."""

    async def page(request: Request) -> Response:
        return console.page("login.html", request, {"next": request.query_params.get("next", ""), "problem": None})

    async def log_in(request: Request) -> Response:
        require_own_page(request.scope)
        size = request.headers.get("content-length", "")
        if not size.isdigit() or int(size) > _MAX_FORM_BYTES:
            raise BadRequest("Send the form as the page has it.")
        form = await Form.of(request)
        target = form.text("next")
        try:
            principal, cookie = await console.sessions.open(SecretStr(form.text("key")), request.scope)
        except ApiError as error:
            context = {"next": target, "problem": str(error)}
            return console.page("login.html", request, context, status=error.status)
        set_key(principal.key_id)
        await console.services.audit.record(AuditEvent.CONSOLE_OPENED, caller=principal.caller.id)
        # Below `./`, even `//elsewhere` stays a path of this server.
        return RedirectResponse(f"./{target.lstrip('/')}", status_code=303, headers={"Set-Cookie": cookie})

    async def log_out(request: Request) -> Response:
        require_own_page(request.scope)
        form = await Form.of(request)
        console.sessions.check_form(request.scope, form.text("token"))
        cookie = console.sessions.end(request.scope)
        location = f"{path_to_console(request.url.path)}login"
        return RedirectResponse(location, status_code=303, headers={"Set-Cookie": cookie})

    yield console.route("/login", page)
    yield console.route("/login", log_in, method="POST")
    yield console.route("/logout", log_out, method="POST")
