"""`Mode`: what differs between the ways in which a server presents its tools."""

from dataclasses import dataclass

from workflows.executors import ActorExecutor
from workflows.tools.tool import Tool


@dataclass(frozen=True)
class Mode:
    """One way of presenting tools. Names and categories of tools are the same in every mode."""

    name: str
    executor: ActorExecutor
    tools: tuple[Tool, ...]
    instructions: str = ""
