"""`outlast client`: the client's part of tools, on the user's machine."""

import sys
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action

DEFAULT_BROWSER_URL = "http://127.0.0.1:9222"


def client(
    browser_url: Annotated[
        str, typer.Option(envvar="OUTLAST_BROWSER_URL", help="Address of the browser's debugging port.")
    ] = DEFAULT_BROWSER_URL,
    allow_remote_browser: Annotated[
        bool, typer.Option("--allow-remote-browser", help="Accept a browser on another machine.")
    ] = False,
    tools_from: Annotated[
        str | None,
        typer.Option(
            "--tools-from",
            metavar="FILE[,FILE]",
            help="Client tools of your own: Python modules with CLIENT_TOOLS, or manifests of programs (.json).",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a tool first sends something of this machine.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Answer what your tasks ask of this machine, until Ctrl-C.

    Offers `list_tabs`, the tabs of a browser that was started with --remote-debugging-port=9222, and the client tools
    of --tools-from.
    """
    run_action(
        Options(url, token, data_dir, as_json),
        lambda context: serve(context, browser_url, tools_from, allow_remote=allow_remote_browser, ask=not yes),
    )


async def serve(
    context: Context, browser_url: str, tools_from: str | None, *, allow_remote: bool, ask: bool
) -> ExitCode:
    """Answer hand-offs until Ctrl-C."""
    from outlast.cli.ask.prompts import typed_lines  # noqa: PLC0415
    from outlast.cli.client_tools.consent import Consent  # noqa: PLC0415 (httpx)
    from outlast.cli.client_tools.devtools import checked_browser_url  # noqa: PLC0415
    from outlast.cli.client_tools.handoff_answers import Serving  # noqa: PLC0415
    from outlast.cli.client_tools.own_tools import own_tools  # noqa: PLC0415
    from outlast.cli.client_tools.tool_list import offered  # noqa: PLC0415

    browser_url = checked_browser_url(browser_url, allow_remote=allow_remote)
    tools = offered(browser_url, own_tools(tools_from or ""))
    if ask and (context.output.as_json or not sys.stdin.isatty()):
        raise BadInput("There is no terminal to ask you on.", hint="Say --yes when every call may have what it asks.")
    context.interrupted = CliError(
        "Stopped. What is asked from now on waits for the next client.", exit_code=ExitCode.INTERRUPTED
    )
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(typed_lines()) if ask else None
        consent = Consent(context.output, lines, context.client.connection.url)
        await Serving(context.client, context.output, tools, consent).run()
    return ExitCode.OK
