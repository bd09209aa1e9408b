"""Tools, with a form from the schema to try one."""

import json

from outlast.api.console.fields import document_of, fields_of
from outlast.api.console.framework import Context, Section, View
from outlast.api.errors import BadRequest
from outlast.contracts.tasks import TaskRequest

section = Section("Tools")


@section.page("tools", "tools.html")
async def tools(view: View) -> Context:
    """The tools that the caller can call."""
    listed = await view.services.catalogue.listed(view.services.settings.mode, view.caller)
    return {"tools": sorted(listed.tools.values(), key=lambda tool: tool.name)}


@section.page("tools/{name}", "tool.html")
async def tool(view: View) -> Context:
    """A tool, with a form for its arguments."""
    found = await view.services.catalogue.resolve(view.services.settings.mode, view.of_path("name"), view.caller)
    schema = dict(found.input_schema)
    return {"tool": found, "fields": fields_of(schema), "schema": schema}


@section.action("tools/{name}", "call")
async def call(view: View) -> str:
    """Call a tool with the arguments of the form, and show its task."""
    name = view.of_path("name")
    found = await view.services.catalogue.resolve(view.services.settings.mode, name, view.caller)
    given = view.form.text("arguments")
    try:
        arguments = json.loads(given) if given else document_of(dict(found.input_schema), view.form)
    except ValueError as error:
        raise BadRequest(f"The arguments are not JSON: {error}.") from None
    most = view.form.text("max_usd")
    options = {"budget": {"max_total_charge_usd": most}} if most else {}
    request = TaskRequest.model_validate({"tool": found.name, "arguments": arguments, "options": options})
    return f"tasks/{(await view.services.tasks.start(view.caller, request)).id}"
