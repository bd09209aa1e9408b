"""`outlast dev`: the embedded stack with the user's tools under work."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from rich.markup import escape

from outlast.cli.commands.stack import StackReport, checked_config, data_dir_flag, serve_stack
from outlast.cli.options import DEFAULT_DATA_DIR
from outlast.cli.runner import local_command
from outlast.cli.show.output import Entries, Output
from outlast.cli.stack_options import DevFlags, StackDataDirOption
from outlast.deploy.local.state import StackEvent, StackEventKind

if TYPE_CHECKING:
    from outlast.deploy.local.config import StackConfig
    from outlast.deploy.local.tool_reload import OwnTool

_REPLACED = frozenset({"worker", "api"})


@local_command()
async def dev(
    output: Output,
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE...", help="Files, folders or modules with your tools.")
    ],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    **given: Unpack[DevFlags],
) -> None:
    """Start the embedded stack with your tools, show how to call each, and reload them when a file changes.

    Open calls continue with the new tools. If a file cannot be loaded, the old tools keep running, and its error is
    shown with file and line. Ctrl-C stops everything.
    """
    output.as_json = output.as_json or given.get("log_format") == "json"
    tools_from = ",".join(modules)
    config = await checked_config({"data_dir": data_dir, "tools_from": tools_from, "reload_tools": True, **given})
    await serve_stack(output, config, ToolReport(output, config))


class ToolReport(StackReport):
    """Shows the events of a stack, its tools, and the tools that have changed after a reload."""

    def __init__(self, output: Output, config: "StackConfig") -> None:
        super().__init__(output)
        self._config = config
        self._shown: Mapping[str, OwnTool] = {}
        self._awaited: set[str] = set()
        """Processes that are being replaced."""

    def announce(self) -> None:
        """Show all tools."""
        self._show_tools("tools", f"Edit {self._config.tools_from}; changes are loaded when you save.")

    def show(self, event: StackEvent) -> None:
        """Show one event; after the last one of a reload, the tools that have changed."""
        super().show(event)
        if event.kind is StackEventKind.RELOADING:
            self._awaited = set(_REPLACED)
        elif event.kind is StackEventKind.READY and event.component in self._awaited:
            self._awaited.discard(event.component)
            if not self._awaited:
                self._show_tools("reloaded", "Reloaded: calls get the new tools.")

    def _show_tools(self, event: str, note: str) -> None:
        """Show the tools that are new or have changed since the last time, and the names of those that are gone."""
        if self.stack is None:
            return
        tools = {tool.name: tool for tool in self.stack.own_tools}
        changed = [tool for name, tool in tools.items() if self._shown.get(name) != tool]
        gone = [name for name in self._shown if name not in tools]
        self._shown = tools
        api_url = self.stack.addresses.api_url or ""
        if self._output.as_json:
            shown = [{**tool.model_dump(), **_ways(tool, api_url, self._config)} for tool in changed]
            self._output.line({"event": event, "tools": shown, "removed": gone})
            return
        for tool in changed:
            self._output.show(f"[bold]{escape(tool.name)}[/]  {escape(_first_line(tool.description))}")
            self._output.show(Entries([*_arguments(tool), *_addresses(tool, api_url, self._config)]))
            self._output.show()
        for name in gone:
            self._output.show(f"[bold]{escape(name)}[/]  [dim]is gone[/]")
        self._output.show(f"[green]✓[/] {escape(note)}")


def _arguments(tool: "OwnTool") -> list[tuple[str, ...]]:
    required = _required(tool)
    properties: Any = tool.input_schema.get("properties") or {}
    rows: list[tuple[str, ...]] = []
    for name, schema in properties.items():
        facts = (_kind(schema), "" if name in required else "optional")
        text = ", ".join(fact for fact in facts if fact)
        rows.append((f"  {escape(name)}", escape(f"{text}. {schema.get('description', '')}".strip(". ") or "any")))
    return rows


def _required(tool: "OwnTool") -> list[str]:
    names: Any = tool.input_schema.get("required") or []
    return [str(name) for name in names]


def _kind(schema: Mapping[str, Any]) -> str:
    named = schema.get("type")
    if isinstance(named, str):
        return named
    kinds: Sequence[Mapping[str, Any]] = schema.get("anyOf") or []
    return " or ".join(str(one.get("type", "object")) for one in kinds) or "object"


def _ways(tool: "OwnTool", api_url: str, config: "StackConfig") -> dict[str, str]:
    """Return the ways to call a tool: a command, the URL of the REST API, and that of an MCP server with it alone."""
    values = "".join(f" -a {name}=..." for name in _required(tool))
    return {
        "command": f"outlast call {tool.name}{values}{data_dir_flag(config)}",
        "rest_url": f"{api_url}/v1/tools/{tool.name}/call",
        "mcp_url": f"{api_url}/mcp?tools={tool.name}",
    }


def _addresses(tool: "OwnTool", api_url: str, config: "StackConfig") -> list[tuple[str, ...]]:
    ways, required = _ways(tool, api_url, config), _required(tool)
    example = json.dumps({"arguments": dict.fromkeys(required, "...")})
    return [
        ("  [dim]call[/]", escape(ways["command"])),
        ("  [dim]REST[/]", escape(f"POST {ways['rest_url']} {example}")),
        ("  [dim]MCP[/]", escape(ways["mcp_url"])),
    ]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
