"""An Actor's definition, from which its direct tool and the check of its input are built."""

from pydantic import Field, TypeAdapter, field_validator

from outlast.activities.contracts import Contract, JsonObject
from outlast.activities.platform import apify

_OBJECT = TypeAdapter(JsonObject)


class ActorDefinition(Contract):
    """An Actor and its default build (Apify API v2, Actor and build objects)."""

    actor_id: str
    full_name: str
    title: str
    description: str
    input_schema: JsonObject = Field(default_factory=dict)
    readme: str | None = None
    dataset_schema: JsonObject | None = Field(default=None, description="Schema of its rows, where it declares one.")
    build_number: str | None = None
    mcp_path: str | None = Field(default=None, description="For an Actor that is an MCP server: its path, `/mcp`.")
    is_standby: bool = Field(default=False, description="Whether it serves HTTP in standby mode.")
    picture_url: str | None = None
    default_memory_mbytes: int | None = Field(default=None, description="Memory of its runs, where none is asked for.")
    build_tags: tuple[str, ...] = Field(default=(), description="Tags of its builds, such as `latest`.")


class _Fields(Contract):
    """A dataset schema of the platform: the JSON Schema of the rows is in `fields`."""

    fields: JsonObject | None = None


class _Storages(Contract):
    dataset: _Fields | str | None = None


class _Definition(Contract):
    """The Actor definition of a build (`actor.json`)."""

    input: JsonObject | None = None
    readme: str | None = None
    storages: _Storages | None = None
    mcp_paths: str | None = Field(default=None, alias="webServerMcpPath")

    @property
    def dataset_schema(self) -> JsonObject | None:
        dataset = self.storages.dataset if self.storages else None
        return (dataset.fields or None) if isinstance(dataset, _Fields) else None

    @property
    def mcp_path(self) -> str | None:
        """The path of the streamable HTTP transport, out of a list that is separated by commas.

        Only absolute paths count: appended to a host, any other text could lead to another host.
        """
        paths = [path.strip() for path in (self.mcp_paths or "").split(",")]
        absolute = [path for path in paths if path.startswith("/") and not path.startswith("//")]
        return next((path for path in absolute if path.endswith("/mcp")), absolute[0] if absolute else None)


class _Build(Contract):
    """A build; newer ones hold the input schema as an object, older ones as text (`inputSchema`, deprecated)."""

    definition: _Definition = Field(default=_Definition(), alias="actorDefinition")
    input_schema: str | None = Field(default=None, alias="inputSchema")
    readme: str | None = None
    build_number: str | None = Field(default=None, alias="buildNumber")

    @field_validator("definition", mode="before")
    @classmethod
    def _empty_for_none(cls, value: object) -> object:
        return {} if value is None else value

    def parsed_input_schema(self) -> JsonObject:
        return self.definition.input or _OBJECT.validate_json(self.input_schema or "{}")


async def fetch_actor_definition(client: "apify.ApifyClientAsync", actor: str) -> ActorDefinition | None:
    """The definition of `actor` (`user/name` or id), or None when the caller can see no such Actor."""
    found = await fetch_actor(client, actor)
    return found[1] if found else None


async def actor_of_saved_task(client: "apify.ApifyClientAsync", task: str) -> str | None:
    """The id of the Actor that a saved task runs, or None when the caller can see no such task."""
    found = await client.task(task).get()
    return found.act_id if found is not None else None


async def fetch_actor(
    client: "apify.ApifyClientAsync", actor: str
) -> tuple["apify.ActorResource", ActorDefinition] | None:
    """The Actor object and its definition, or None when the caller can see no such Actor."""
    resource = client.actor(actor)
    found = await resource.get()
    if found is None:
        return None
    answer = await (await resource.default_build()).get()
    build = _Build.model_validate(answer.model_dump(by_alias=True, mode="json")) if answer else _Build()
    is_standby = found.actor_standby is not None and found.actor_standby.is_enabled is True
    return found, ActorDefinition(
        actor_id=found.id,
        full_name=f"{found.username}/{found.name}",
        title=found.title or found.name,
        description=found.description or "",
        input_schema=build.parsed_input_schema(),
        readme=build.definition.readme or build.readme,
        dataset_schema=build.definition.dataset_schema,
        build_number=build.build_number,
        mcp_path=build.definition.mcp_path if is_standby else None,
        is_standby=is_standby,
        picture_url=str(found.picture_url) if found.picture_url else None,
        build_tags=tuple(found.tagged_builds or ()),
        default_memory_mbytes=found.default_run_options.memory_mbytes if found.default_run_options else None,
    )
