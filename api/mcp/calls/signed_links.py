"""Links in answers by which the client may read what is too large for an answer: signed as the answer is sent.

Neither a history nor a log has them, so nobody but the client can read by them.
"""

import asyncio

from outlast.activities.contracts import Caller
from outlast.activities.platform_requests.downloads import RecordLinks
from outlast.api.mcp.connections import Client
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.workflows.contracts.tool_calls import Content, ResourceLink, ToolResult


class SignedLinks:
    """Signs them where the mode's clients know such links."""

    def __init__(self, links: RecordLinks) -> None:
        """By `links`."""
        self._links = links

    async def in_answer(self, client: Client, result: ToolResult) -> ToolResult:
        """The answer with its links signed; other answers as they are."""
        if not dialect_of(client.mode).signs_links or not any(isinstance(one, ResourceLink) for one in result.content):
            return result
        blocks = [self._signed(client.caller, block) for block in result.content]
        return result.model_copy(update={"content": tuple(await asyncio.gather(*blocks))})

    async def _signed(self, caller: Caller, block: Content) -> Content:
        if not isinstance(block, ResourceLink):
            return block
        return block.model_copy(update={"uri": await self._links.signed(caller, block.uri)})
