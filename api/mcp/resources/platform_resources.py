"""Addresses of the platform's API as resources, where the connection's mode has such.

They are read at once, and are no tasks: a client repeats a read that fails.
"""

import base64
from email.message import Message
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from outlast.activities.platform_requests.downloads import PlatformBodies, PlatformBody, PlatformRefusal, RecordLinks
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import InvalidCall
from outlast.api.mcp.connections import Client
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.platform_addresses import READ_PARAMETERS, segments_below
from outlast.api.offer.catalogue import Catalogue
from outlast.api.tasks.client import TaskClient

JsonObject = dict[str, Any]
_MAX_NAME_CHARS = 100
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, 500
_TEXTS = ("application/json", "application/xml", "application/javascript")
_TEXT_ENDS = ("+json", "+xml")


class PlatformResources:
    """Lists and reads them, within the rules for the tool that reads the same."""

    def __init__(
        self,
        bodies: PlatformBodies,
        links: RecordLinks,
        catalogue: Catalogue,
        tasks: TaskClient,
        audit: AuditLog,
        *,
        max_bytes: int,
    ) -> None:
        """Show bodies of `max_bytes` at most, and `links` to larger ones.

        Who has read what sort of thing goes to `audit`.
        """
        self._bodies = bodies
        self._links = links
        self._audit = audit
        self._catalogue = catalogue
        self._tasks = tasks
        self._max_bytes = max_bytes

    def templates(self, client: Client) -> list[JsonObject]:
        """The entries of `resources/templates/list`."""
        listed = [address for address in dialect_of(client.mode).addresses if address.name is not None]
        return [dict(address.template(self._bodies.api_base_url)) for address in listed]

    async def read(self, client: Client, uri: str) -> JsonObject:
        """The contents. Raises `MCPError` with -32602, and with -32603 for what may go better next time."""
        root = self._bodies.api_base_url
        found = segments_below(uri, root)
        if found is None:
            raise unreadable(uri, f"only Apify API URLs ({root}) are resources here.")
        segments, parameters = found
        address = next((one for one in dialect_of(client.mode).addresses if one.matches(segments)), None)
        if address is None:
            raise unreadable(uri, "HTTP 404: storages, runs and logs are resources here, and nothing else.")
        unknown = sorted(parameters.keys() - READ_PARAMETERS)
        if unknown:
            raise unreadable(uri, f"HTTP 400: reads take no parameter {unknown[0][:_MAX_NAME_CHARS]!r}.")
        tool = await self._catalogue.resolve(client.mode, address.tool, client.caller)
        try:
            self._tasks.check_front_door_tool(client.caller, tool)
        except InvalidCall as error:
            raise unreadable(uri, f"HTTP 403: {error.envelope.message}") from error
        async with self._audit.action(AuditEvent.RESOURCE_READ, client.caller, tool=address.tool) as record:
            try:
                body = await self._bodies.read(
                    client.caller, segments, parameters, max_bytes=self._max_bytes, is_object=address.is_object
                )
            except PlatformRefusal as error:
                record.note(outcome="refused")
                refused = _refused(uri, error)
            else:
                if body.data is None:
                    return {"contents": [await self._note(client, uri)]}
                return {"contents": [_contents(uri, body, body.data)]}
        raise refused

    async def _note(self, client: Client, uri: str) -> JsonObject:
        """A link in place of something large: where to get it. A signed address needs no token."""
        link = await self._links.signed(client.caller, uri) if dialect_of(client.mode).signs_links else uri
        where = f"get it at {link}" if link != uri else f"get it at {uri} with your Apify token"
        text = f"It has more than {self._max_bytes} bytes. Read a part of it, with limit and offset, or {where}."
        return {"uri": uri, "mimeType": "text/plain", "text": text}


def _contents(uri: str, body: PlatformBody, data: bytes) -> JsonObject:
    """MCP `TextResourceContents`, or `BlobResourceContents`."""
    header = Message()
    header["Content-Type"] = body.content_type or "application/octet-stream"
    kind = header.get_content_type()
    if not data or kind.startswith("text/") or kind in _TEXTS or kind.endswith(_TEXT_ENDS):
        try:
            text = data.decode(header.get_content_charset("utf-8"))
        except (LookupError, UnicodeDecodeError):
            pass  # Bytes lose nothing; a text in the wrong encoding does.
        else:
            return {"uri": uri, "mimeType": str(header["Content-Type"]), "text": text}
    return {"uri": uri, "mimeType": kind, "blob": base64.b64encode(data).decode()}


def unreadable(uri: str, reason: str, *, code: int = INVALID_PARAMS) -> MCPError:
    """The error of `resources/read`, in the words that clients of Apify's own server match."""
    return MCPError(code, f"Failed to read {uri}: {reason}", data={"uri": uri})


def _refused(uri: str, error: PlatformRefusal) -> MCPError:
    passes = error.status is None or error.status == _TOO_MANY_REQUESTS or error.status >= _SERVER_ERRORS
    status = "" if error.status is None else f"HTTP {error.status}: "
    return unreadable(uri, f"{status}{error}", code=INTERNAL_ERROR if passes else INVALID_PARAMS)
