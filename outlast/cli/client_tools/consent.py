"""Asking the user before a tool first tells something of this machine."""

from rich.markup import escape

from outlast.cli.ask.prompts import Lines
from outlast.cli.show.output import Output
from outlast.client import ClientTool, OpenHandoff

_YES = ("y", "yes")


class Consent:
    """The permissions of the user, for as long as the client runs."""

    def __init__(self, output: Output, lines: Lines | None, server_url: str) -> None:
        """Ask by `lines`; without them everything is allowed."""
        self._output = output
        self._lines = lines
        self._server_url = server_url
        self._allowed: set[tuple[str, str]] = set()

    async def given_for(self, tool: ClientTool, handoff: OpenHandoff) -> bool:
        """Whether the tool may run for this hand-off.

        A yes is remembered for calls that send the same, a no is for this one time; so is the end of all input.
        """
        if self._lines is None:
            return True
        leaves = tool.sends_for(handoff.parameters)
        if (tool.tool, leaves) in self._allowed:
            return True
        self._output.note(f"[magenta]?[/] [bold]{tool.tool}[/] sends to {self._server_url}: {escape(leaves)}.")
        try:
            answer = await self._lines.ask(self._output, "  Allow it while this client runs? [bold]yes or no[/]")
        except EOFError:
            return False
        if answer.lower() not in _YES:
            return False
        self._allowed.add((tool.tool, leaves))
        return True
