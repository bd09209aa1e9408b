"""What all pages of the console share: rendering, streams of changes, forms, and errors.

A page is a function that gives its template the context. While the page is open, one stream (server-sent events) sends
those blocks of the template that have changed. A form is an ordinary POST, answered with a redirect to a page.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from cachetools import TTLCache
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from outlast.activities.contracts import Caller
from outlast.api.access.policy.contracts import Scope
from outlast.api.access.principal import Principal
from outlast.api.console import formats
from outlast.api.errors import ApiError, BadRequest
from outlast.api.http.browser_sessions import BrowserSessions, path_to_console, require_own_page
from outlast.api.http.dependencies import PRINCIPAL_STATE
from outlast.api.http.event_stream import sse_response
from outlast.api.services import Services

CONSOLE = "/console"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # With less, browsers send `Origin: null` with the forms of these pages.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_LOOK_SECONDS = 2.0
"""Time between two looks for changes of an open page."""
_SNAPSHOT_SECONDS = 2.0
_MAX_FIELDS = 1_000
_TEMPLATES = Path(__file__).parent / "templates"
Context = Mapping[str, object]
T = TypeVar("T")


class Snapshots:
    """What several pages show, read once for all of them every two seconds."""

    def __init__(self) -> None:
        self._kept = TTLCache[tuple[str, ...], asyncio.Task[Any], float](1_000, _SNAPSHOT_SECONDS)

    async def get(self, key: tuple[str, ...], read: Callable[[], Awaitable[T]]) -> T:
        """The value under `key`, read again when it is old. Raises what `read` raises."""
        task = self._kept.get(key)
        if task is None:
            task = self._kept[key] = asyncio.ensure_future(_awaited(read))
        try:
            return await asyncio.shield(task)
        except Exception:
            if self._kept.get(key) is task:
                del self._kept[key]
            raise


async def _awaited(read: Callable[[], Awaitable[T]]) -> T:
    return await read()


@dataclass(frozen=True)
class Form:
    """The fields of a form, as a browser sends them."""

    fields: Mapping[str, list[str]]

    def text(self, name: str) -> str:
        """The text of a field without white space around it; empty if it is absent."""
        return self.fields.get(name, [""])[0].strip()

    def all(self, name: str) -> list[str]:
        """The values of a field that may occur several times."""
        return self.fields.get(name, [])

    @classmethod
    async def of(cls, request: Request) -> "Form":
        """Read the form that a request sends. Raises `BadRequest` for anything else."""
        if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            raise BadRequest("Send the form as the page has it.")
        body = (await request.body()).decode(errors="replace")
        try:
            return cls(parse_qs(body, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
        except ValueError as error:
            raise BadRequest(f"The form has more than {_MAX_FIELDS} fields.") from error


@dataclass(frozen=True)
class View:
    """One look at a page: who looks, and what the address asks for."""

    console: "Console"
    request: Request
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is read once, although the page is read again and again while it is open."""
    form: Form = field(default_factory=lambda: Form({}))
    """What a form sends along."""

    @property
    def services(self) -> Services:
        """The services that the REST routes use."""
        return self.console.services

    @property
    def principal(self) -> Principal:
        """Who looks."""
        return self.request.scope[PRINCIPAL_STATE]

    @property
    def caller(self) -> Caller:
        """The caller that looks."""
        return self.principal.caller

    @property
    def sees_all(self) -> bool:
        """True if it sees the data of all callers."""
        return "admin" in self.principal.scopes

    def may(self, *scopes: Scope) -> bool:
        """True if it has one of these scopes: buttons that it may not use are not shown."""
        return bool(self.principal.scopes.intersection(scopes))

    def of_path(self, name: str) -> str:
        """A part of the path."""
        return self.request.path_params[name]

    def of_query(self, name: str) -> str | None:
        """A parameter of the query; None if it is absent or empty."""
        return self.request.query_params.get(name) or None

    async def once(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives the first time."""
        if name not in self.kept:
            self.kept[name] = await read()
        return self.kept[name]

    async def snapshot(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives, for all pages of this caller with these scopes."""
        key = (name, self.caller.id, *sorted(self.principal.scopes))
        return await self.console.snapshots.get(key, read)


Make = Callable[[View], Awaitable[Context]]
Act = Callable[[View], Awaitable[str]]
"""Does what a form asks for, and returns the page to show next, relative to the console."""


@dataclass(frozen=True)
class Page:
    """A page at `path` below the console. `live` names the blocks of its template that change while it is open."""

    path: str
    template: str
    make: Make
    live: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Pages of one subject, with an entry in the navigation: its first page. Some need a scope beside `read`."""

    name: str
    scope: Scope = "read"
    is_listed: bool = True
    """False for pages that others lead to, which the navigation does not have."""
    pages: list[Page] = field(default_factory=list[Page])
    actions: list[tuple[str, tuple[Scope, ...], Act]] = field(default_factory=list[tuple[str, tuple[Scope, ...], Act]])

    def page(self, path: str, template: str, *, live: tuple[str, ...] = ()) -> Callable[[Make], Make]:
        """Make a page of a function."""

        def added(make: Make) -> Make:
            self.pages.append(Page(path, template, make, live))
            return make

        return added

    def action(self, path: str, *scopes: Scope) -> Callable[[Act], Act]:
        """Let a function handle the forms that are sent to `path` by callers with one of `scopes`."""

        def added(act: Act) -> Act:
            self.actions.append((path, scopes, act))
            return act

        return added


class Console:
    """The pages of all sections, as routes."""

    def __init__(self, services: Services, sessions: BrowserSessions, sections: tuple[Section, ...]) -> None:
        self.services = services
        self.sessions = sessions
        self.snapshots = Snapshots()
        self._sections = sections
        self._templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(formats.FILTERS)
        self._templates.globals["ui"] = self._templates.get_template("ui.html").module

    @staticmethod
    def now() -> datetime:
        """The time of a look."""
        return datetime.now(UTC)

    def routes(self) -> Iterator[Route]:
        """The routes of all pages, of their streams, and of forms."""
        for section in self._sections:
            for page in section.pages:
                yield self.route(f"/{page.path}", partial(self._show, section, page))
                if page.live:
                    yield self.route(f"/live/{page.path}", partial(self._follow, section, page))
            for path, scopes, act in section.actions:
                yield self.route(f"/{path}", partial(self._act, scopes, act), method="POST")

    def route(self, path: str, answer: Callable[[Request], Awaitable[Response]], *, method: str = "GET") -> Route:
        """A route below the console whose errors are pages."""

        async def endpoint(request: Request) -> Response:
            request.scope["route"] = route  # metrics count by its path
            try:
                return await answer(request)
            except ApiError as error:
                return self.error_page(request, error)
            except ValidationError as error:
                return self.error_page(request, BadRequest(_first_problem(error)))

        route = Route(f"{CONSOLE}{path}", endpoint, methods=[method], include_in_schema=False)
        return route

    def page(self, template: str, request: Request, context: Context, *, status: int = 200) -> HTMLResponse:
        """A page that is rendered from `template`."""
        text = self._templates.get_template(template).render(self._shared(request), **context)
        return HTMLResponse(text, status, headers=HEADERS)

    def error_page(self, request: Request, error: ApiError) -> HTMLResponse:
        """The page that explains an error, and leads back."""
        is_known = PRINCIPAL_STATE in request.scope
        context = {"title": error.title, "detail": str(error), "is_known": is_known, "section": None, "live": None}
        shared: dict[str, object] = self._frame(request) if is_known else {}
        return self.page("error.html", request, {**shared, **context}, status=error.status)

    async def _show(self, section: Section, page: Page, request: Request) -> Response:
        view = View(self, request)
        _require(section, view)
        return self.page(page.template, request, await self._context(section, page, view))

    async def _follow(self, section: Section, page: Page, request: Request) -> Response:
        view = View(self, request)
        _require(section, view)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return sse_response(self._changes(section, page, view))

    async def _changes(self, section: Section, page: Page, view: View) -> AsyncGenerator[str]:
        """The blocks of an open page that have changed, and the time of each look."""
        sent: dict[str, str] = {}
        template = self._templates.get_template(page.template)
        while True:
            try:
                context = {**self._shared(view.request), **await self._context(section, page, view)}
            except ApiError as error:
                yield f"event: stale\ndata: {formats.text(str(error))}\n\n"
            else:
                blocks = {name: self._block(template, name, context) for name in (*page.live, "waiting")}
                changed = {name: text for name, text in blocks.items() if sent.get(name) != text}
                sent.update(changed)
                if changed:
                    yield _frame(changed)
                yield f"event: looked\ndata: {formats.clock(datetime.now(UTC))}\n\n"
            await asyncio.sleep(_LOOK_SECONDS)

    def _block(self, template: Template, name: str, context: Mapping[str, Any]) -> str:
        owner = template if name in template.blocks else self._templates.get_template("base.html")
        return "".join(owner.blocks[name](owner.new_context(dict(context))))

    async def _context(self, section: Section, page: Page, view: View) -> dict[str, object]:
        """The context of a page with its frame. Raises what the page raises."""
        made, waiting = await asyncio.gather(page.make(view), view.snapshot("waiting", partial(_count_waiting, view)))
        query = view.request.url.query
        path = view.request.url.path.partition(f"{CONSOLE}/")[2].removeprefix("live/")
        live = f"live/{path}{'?' + query if query else ''}" if page.live else None
        return {**self._frame(view.request), "section": section, "live": live, "waiting": waiting, **made}

    def _frame(self, request: Request) -> dict[str, object]:
        view = View(self, request)
        return {
            "view": view,
            "sections": self._sections,
            "token": self.sessions.form_token(request.scope),
            "has_session": self.sessions.has_session(request.scope),
            "namespace": self.services.tasks.client.namespace,
            "waiting": 0,
        }

    def _shared(self, request: Request) -> dict[str, object]:
        path = request.url.path.replace(f"{CONSOLE}/live/", f"{CONSOLE}/", 1)
        return {"root": path_to_console(path), "now": datetime.now(UTC)}

    async def _act(self, scopes: tuple[Scope, ...], act: Act, request: Request) -> Response:
        require_own_page(request.scope)
        view = View(self, request, form=await Form.of(request))
        self.sessions.check_form(request.scope, view.form.text("token"))
        view.principal.require(*scopes)
        page = await act(view)
        return RedirectResponse(f"{path_to_console(request.url.path)}{page}", status_code=303)


async def _count_waiting(view: View) -> int:
    """The number of approvals and questions that wait for the caller; 0 while Temporal does not answer."""
    with contextlib.suppress(ApiError):
        return len(await view.services.handoffs.open(view.principal))
    return 0


def _require(section: Section, view: View) -> None:
    """Raise `ForbiddenScope` unless the viewer may see the pages of a section."""
    view.principal.require("read")
    view.principal.require(section.scope)


def _frame(blocks: Mapping[str, str]) -> str:
    """One event with the blocks of a page, each for the element that shows it."""
    partials = (
        f'<hx-partial hx-target="#live-{name}" hx-swap="innerMorph">{text}</hx-partial>'
        for name, text in blocks.items()
    )
    lines = "".join(partials).replace("\r", "").split("\n")
    return "".join(f"data: {line}\n" for line in lines) + "\n"


def _first_problem(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
