"""Arguments of the tools for saved tasks."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.core.saved_options import SavedOptions
from outlast.workflows.tools.framework.tool import Arguments

Name = Annotated[
    str,
    StringConstraints(min_length=3, max_length=63, pattern=r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$"),
]
"""The name of a saved task (Apify API v2)."""
Text = Annotated[str, StringConstraints(max_length=5_000)]
_FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class PublicPage(Arguments):
    """What the public page of a saved task shows (Apify API v2, `publicConfig`)."""

    seo_title: str | None = Field(default=None, max_length=60, alias="seoTitle", description="Title of the page.")
    seo_description: str | None = Field(
        default=None, max_length=160, alias="seoDescription", description="Description of the page."
    )
    input_schema_fields: list[_FieldName] | None = Field(
        default=None, max_length=200, alias="inputSchemaFields", description="Fields of the input that it shows."
    )
    dataset_name: _FieldName | None = Field(
        default=None, alias="datasetName", description="Dataset whose schema has the views."
    )
    dataset_view: _FieldName | None = Field(
        default=None, alias="datasetView", description="View of the rows that it shows."
    )


class TaskFields(Arguments):
    """Properties of a saved task."""

    name: Name | None = Field(default=None, description="Letters, digits and inner hyphens.")
    title: Text | None = Field(default=None, description="What people see instead of the name.")
    description: Text | None = Field(default=None, description="What it is for.")
    input: dict[str, JsonValue] | None = Field(
        default=None, description="Input of its runs, fitting the Actor's own input schema."
    )
    call_options: SavedOptions | None = Field(
        default=None, alias="callOptions", description="How its runs are carried out."
    )
    public_config: PublicPage | None = Field(
        default=None, alias="publicConfig", description="What its public page shows. This alone publishes nothing."
    )

    def as_sent(self) -> JsonObject:
        """The fields that were given, as the platform's API has them."""
        given: dict[str, JsonValue] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input": self.input,
            "options": self.call_options.as_sent() if self.call_options else None,
            "publicConfig": self.public_config.model_dump(by_alias=True, exclude_none=True)
            if self.public_config
            else None,
        }
        return {name: value for name, value in given.items() if value is not None}
