"""Whether a connection can run an Actor that it finds, and what it is told where it cannot."""

from collections.abc import Iterable

from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.actors.actor_tool import tool_name

CANNOT_RUN = (
    "This connection cannot run this Actor: it has neither call-actor nor a tool of the Actor. The person who set it "
    "up can select either."
)
SOME_CANNOT_RUN = (
    "This connection can run only Actors that have a tool of their own in it. Others need call-actor, or their own "
    "name, among the tools that the person who set it up has selected."
)


def can_run(ctx: ToolContext, actor: str) -> bool:
    """Whether the caller's connection has `call-actor`, the tool of `actor` (`user/name`), or one of its server's."""
    own = tool_name(actor)
    of_its_server = (name for name in ctx.call.offered_tools if name.startswith(f"{own}--"))
    return any(ctx.offers(name) for name in ("call-actor", own, *of_its_server))


def can_run_all(ctx: ToolContext, actors: Iterable[str]) -> bool:
    """Whether that is so for each of them."""
    return all(can_run(ctx, actor) for actor in actors)
