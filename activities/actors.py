"""Looking up an Actor's definition: what a direct Actor tool and the check of its input are made from."""

from apify_client import ApifyClientAsync
from pydantic import Field, JsonValue, TypeAdapter, field_validator

from activities.models import Contract

JsonObject = dict[str, JsonValue]
_OBJECT = TypeAdapter(JsonObject)


class ActorDefinition(Contract):
    """An Actor as its default build defines it (Apify API v2, Actor and build objects)."""

    actor_id: str
    full_name: str
    title: str
    description: str
    input_schema: JsonObject = Field(default_factory=dict)
    readme: str | None = None


class _Definition(Contract):
    """What a build says of its Actor (Actor definition, `actor.json`)."""

    input: JsonObject | None = None
    readme: str | None = None


class _Build(Contract):
    """A build; newer ones hold the input schema as an object, older ones as text (`inputSchema`, deprecated)."""

    definition: _Definition = Field(default=_Definition(), alias="actorDefinition")
    input_schema: str | None = Field(default=None, alias="inputSchema")
    readme: str | None = None

    @field_validator("definition", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    def schema_of_input(self) -> JsonObject:
        return self.definition.input or _OBJECT.validate_json(self.input_schema or "{}")


async def fetch_actor_definition(client: ApifyClientAsync, actor: str) -> ActorDefinition | None:
    """The definition of `actor` (`user/name` or id), or None when the caller can see no such Actor."""
    resource = client.actor(actor)
    found = await resource.get()
    if found is None:
        return None
    build = await (await resource.default_build()).get()
    definition = _Build.model_validate(build.model_dump(by_alias=True, mode="json")) if build else _Build()
    return ActorDefinition(
        actor_id=found.id,
        full_name=f"{found.username}/{found.name}",
        title=found.title or found.name,
        description=found.description or "",
        input_schema=definition.schema_of_input(),
        readme=definition.definition.readme or definition.readme,
    )
