"""`Read` and `Bash`: files and commands in the conversation's workspace, if the operator has enabled them."""

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.workspaces.activities import MAX_COMMAND_SECONDS, CommandOutcome, FileLines
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import describe_size
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, reads, tool

DEFAULT_COMMAND_SECONDS = 60


class ReadArguments(Arguments):
    """Lines of a file."""

    path: str = Field(min_length=1, max_length=1_024, description="File, relative to the workspace.")
    offset: Offset = Field(default=0, description="Lines to skip.")
    limit: int = Field(default=2_000, ge=1, le=100_000, description="Maximum number of lines.")


class BashArguments(Arguments):
    """A command, and its longest duration."""

    command: str = Field(
        min_length=1, max_length=32_768, pattern=r"^[^\x00]*$", description="Command line for bash, in the workspace."
    )
    timeout_secs: float = Field(
        default=DEFAULT_COMMAND_SECONDS,
        gt=0,
        le=MAX_COMMAND_SECONDS,
        alias="timeoutSecs",
        description="Seconds after which the command is killed.",
    )


async def read(ctx: HandlerContext, arguments: ReadArguments) -> ToolResult:
    """Read the lines, with a hint on the next ones."""
    lines = await ctx.workspaces.read(arguments.path, offset=arguments.offset, limit=arguments.limit)
    return ToolResult(content=(TextContent(text="\n".join(filter(None, (_heading(lines), lines.text)))),))


async def bash(ctx: HandlerContext, arguments: BashArguments) -> ToolResult:
    """Run the command. A nonzero exit code is an answer; a killed command is a failure."""
    outcome = await ctx.workspaces.run(arguments.command, timeout_seconds=arguments.timeout_secs)
    failed = _killed(outcome, arguments)
    outcome_text = failed.message if failed else f"Exit code {outcome.exit_code}."
    output = outcome.output.rstrip("\n")
    text = f"{outcome_text}\n{output}" if output else f"{outcome_text} It wrote nothing."
    return ToolResult(
        content=(TextContent(text=text),),
        is_error=failed is not None,
        error=failed,
        meta={"outlast/exitCode": outcome.exit_code, "outlast/ended": outcome.ended},
    )


def _heading(lines: FileLines) -> str:
    size = describe_size(lines.size_bytes)
    if not lines.lines:
        return f"{lines.path} ({size}) has no line {lines.offset}." if lines.size_bytes else f"{lines.path} is empty."
    last = lines.offset + lines.lines - 1
    cut = f"; line {lines.offset} is cut, it has {describe_size(lines.cut_line_bytes)}" if lines.cut_line_bytes else ""
    more = f"; more with offset {lines.next_offset}" if lines.next_offset is not None else ""
    return f"{lines.path} ({size}), lines {lines.offset} to {last}{cut}{more}:"


def _killed(outcome: CommandOutcome, arguments: BashArguments) -> ErrorEnvelope | None:
    if outcome.ended == "exited":
        return None
    seconds = f"{arguments.timeout_secs:g}"
    message, category, hint = {
        "timed_out": (
            f"The command did not end within {seconds} seconds and was killed.",
            ErrorCategory.TIMEOUT,
            f"Do less at once, or set timeoutSecs, at most {MAX_COMMAND_SECONDS}.",
        ),
        "memory": (
            "The command used more memory than it may and was killed.",
            ErrorCategory.CAPACITY,
            "Work in smaller pieces.",
        ),
        "flooded": (
            "The command wrote more than it may and was killed.",
            ErrorCategory.CAPACITY,
            "Write to a file of the workspace, and look at parts of it.",
        ),
    }[outcome.ended]
    return ErrorEnvelope.permanent(category, "Bash", message, hint=hint)


READ = (
    tool("Read")
    .category(Category.DEV)
    .describe("Read a text file in the workspace, whole or some of its lines.")
    .annotate(reads("Read a file"))
    .args(ReadArguments)
    .server(read)
    .build()
)

BASH = (
    tool("Bash")
    .category(Category.DEV)
    .describe(
        "Run a bash command in the workspace and get its output. It has the programs of the server, no network, no "
        "files but those of the workspace, and limits on time, memory and output. Files that it leaves in the "
        "workspace are kept for the next command; processes are not."
    )
    .annotate(ToolAnnotations(title="Run a command", destructive=True, open_world=False))
    .args(BashArguments)
    .server(bash)
    .long_running()
    .build()
)
