"""The Actors that a call has run later on, by a saved task or a schedule: the operator's rules are about them, too."""

from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.errors import InvalidCall
from outlast.api.offer.catalogue import CalledActor, Catalogue
from outlast.workflows.tools.framework.tool import Tool, values_at


async def planned_actors(
    catalogue: Catalogue, tool: Tool, arguments: JsonObject, caller: Caller
) -> tuple[CalledActor, ...]:
    """The Actors, by their full names.

    Raises `InvalidCall` for what cannot be found: nobody could say what the rules say of it; and `PlatformUnavailable`.
    """
    found: list[CalledActor] = []
    for places, look_up, kind in (
        (tool.planned_actors, catalogue.actor, "Actor"),
        (tool.planned_tasks, catalogue.actor_of_task, "saved task"),
    ):
        named = [str(value) for place in places for value in values_at(arguments, place)]
        for name in dict.fromkeys(named):
            actor = await look_up(name, caller)
            if actor is None:
                raise _unknown(tool, kind, name)
            found.append(actor)
    return tuple(found)


def _unknown(tool: Tool, kind: str, name: str) -> InvalidCall:
    message = f"There is no {kind} {name[:200]!r} here, and this server's permissions go by Actors."
    hint = "Name it in full, as `user/name`, or by its id."
    return InvalidCall(ErrorEnvelope.permanent(ErrorCategory.NOT_FOUND, tool.name, message, hint=hint))
