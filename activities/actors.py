"""Looking up an Actor's definition: what a direct Actor tool and the check of its input are made from."""

import json
from typing import Any, cast

from apify_client import ApifyClientAsync
from pydantic import Field, JsonValue

from activities.models import Contract


class ActorDefinition(Contract):
    """An Actor as its default build defines it (Apify API v2, Actor and build objects)."""

    actor_id: str
    full_name: str
    title: str
    description: str
    input_schema: dict[str, JsonValue] = Field(default_factory=dict)
    readme: str | None = None


async def fetch_actor_definition(client: ApifyClientAsync, actor: str) -> ActorDefinition | None:
    """The definition of `actor` (`user/name` or id), or None when the caller can see no such Actor."""
    resource = client.actor(actor)
    found = await resource.get()
    if found is None:
        return None
    build = await (await resource.default_build()).get()
    definition: dict[str, Any] = build.model_dump(by_alias=True, mode="json") if build is not None else {}
    return ActorDefinition(
        actor_id=found.id,
        full_name=f"{found.username}/{found.name}",
        title=found.title or found.name,
        description=found.description or "",
        input_schema=_input_schema(definition),
        readme=(definition.get("actorDefinition") or {}).get("readme") or definition.get("readme"),
    )


def _input_schema(build: dict[str, Any]) -> dict[str, JsonValue]:
    """Newer builds hold the schema as an object, older ones as text (`inputSchema`, deprecated)."""
    schema: object = (build.get("actorDefinition") or {}).get("input") or build.get("inputSchema") or {}
    if isinstance(schema, str):
        schema = json.loads(schema)
    return cast(dict[str, JsonValue], schema if isinstance(schema, dict) else {})
