"""Answering hand-offs: one after the other, each once, and leaving be what others have answered."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from http import HTTPStatus

from rich.markup import escape

from outlast.api.cli.client_tools.consent import Consent
from outlast.api.cli.client_tools.devtools import JsonObject
from outlast.api.cli.client_tools.handoffs import Connected, HandoffNews, follow_handoffs
from outlast.api.cli.client_tools.offered import ClientTool
from outlast.api.cli.errors import CliError, ExitCode, Unreachable
from outlast.api.cli.http.client import ApiClient
from outlast.api.cli.running import notice_on
from outlast.api.cli.show.output import Output

Identity = tuple[str, str, object]
_TAKEN_OVER = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)


class Serving:
    """One client at work."""

    def __init__(
        self, client: ApiClient, output: Output, tools: Mapping[tuple[str, str], ClientTool], consent: Consent
    ) -> None:
        """Answer what `tools` can, when `consent` is given."""
        self._client = client
        self._output = output
        self._tools = tools
        self._consent = consent
        self._open: dict[Identity, HandoffNews] = {}
        self._done: set[Identity] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled. Raises `CliError` for what cannot be mended by waiting."""
        parts = [asyncio.create_task(part) for part in (self._listen(), self._work())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in ended:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _listen(self) -> None:
        tools = sorted({tool.tool for tool in self._tools.values()})
        async with aclosing(follow_handoffs(self._client, tools, notice_on(self._output))) as news:
            async for each in news:
                self._hear(each)

    def _hear(self, news: HandoffNews | Connected) -> None:
        if isinstance(news, Connected):
            self._open.clear()
            self._say("connected", f"Waiting for hand-offs from {self._client.server.url}.")
        elif not news.is_open:
            self._open.pop(news.identity, None)
            self._done.discard(news.identity)
        elif news.kind == "client" and (news.tool, news.phase) in self._tools and news.identity not in self._done:
            self._open[news.identity] = news
            self._changed.set()

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            while self._open:
                identity = next(iter(self._open))
                handoff = self._open.pop(identity)
                # Before it is answered: the server may offer it again while it takes the answer.
                self._done.add(identity)
                await self._answer(handoff)
            self._changed.clear()

    async def _answer(self, handoff: HandoffNews) -> None:
        tool = self._tools[handoff.tool, handoff.phase]
        self._say("asked", f"{handoff.tool} is asked by task {handoff.task_id}.", handoff)
        if not await self._consent.given_for(tool):
            answer: JsonObject = {"action": "decline"}
        else:
            answer = {"action": "accept", "content": await tool.run(handoff.parameters)}
        try:
            await self._client.answer(handoff.task_id, {handoff.key: answer})
        except Unreachable as trouble:
            self._done.discard(handoff.identity)
            self._open[handoff.identity] = handoff
            self._say("unreachable", f"{trouble.message} The task still waits.", handoff)
        except CliError as refused:
            self._refused(handoff, refused)
        else:
            self._say(*_outcome(answer), handoff)

    def _refused(self, handoff: HandoffNews, error: CliError) -> None:
        if error.exit_code is ExitCode.UNAUTHENTICATED:
            raise error
        status = (error.problem or {}).get("status")
        if status in _TAKEN_OVER:
            self._say("closed", f"Nobody waits for this answer any more: {error.message}", handoff)
        else:
            self._say("refused", " ".join([error.message, *error.lines]), handoff)

    def _say(self, event: str, text: str, handoff: HandoffNews | None = None) -> None:
        if self._output.as_json:
            task = {"task_id": handoff.task_id, "tool": handoff.tool, "key": handoff.key} if handoff else {}
            self._output.line({"event": event, "message": text, **task})
            return
        self._output.note(f"{_MARKS[event]} {escape(text)}")


_MARKS = {
    "connected": "[green]●[/]",
    "asked": "[magenta]?[/]",
    "answered": "[green]✓[/]",
    "declined": "[yellow]■[/]",
    "failed": "[red]✗[/]",
    "closed": "[dim]■[/]",
    "refused": "[red]✗[/]",
    "unreachable": "[yellow]…[/]",
}


def _outcome(answer: JsonObject) -> tuple[str, str]:
    """What was done, as an event and in words."""
    if answer["action"] == "decline":
        return "declined", "Declined; nothing was sent."
    content = answer["content"]
    if content.get("problem"):
        return "failed", f"Answered that it cannot be done: {content['problem']}"
    return "answered", "Answered."
