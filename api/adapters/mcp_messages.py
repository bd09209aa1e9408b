"""MCP: `tools/call` requests in, responses out (JSON-RPC 2.0), with the result's own content blocks.

The MCP front door (`api.mcp`) adds sessions, progress and tasks; this module only translates.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.api.adapters.model_calls import ModelCall, Outcome, plain, read_call
from outlast.api.errors import BadRequest
from outlast.api.offer.mcp_results import call_result
from outlast.api.offer.portable_schemas import PortableTool

_INVALID_PARAMS = -32602
"""JSON-RPC 2.0, section 5.1. The MCP SDK, which has it too, takes a quarter of a second to load."""
_TASK_META = "outlast/taskId"


class McpMessages:
    """A `BackEnd`. Takes one request or a list of them."""

    name = "mcp"

    def __init__(self, *, mode: str = "default") -> None:
        """In the mode `openai`, answers keep the data for widgets."""
        self._mode = mode

    def tool(self, shown: PortableTool) -> JsonObject:
        """`Tool` of MCP, with the tool's own name and schema, which MCP does not restrict."""
        definition = shown.definition
        return {"name": definition.name, "description": definition.description, "inputSchema": definition.input_schema}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """The requests. Their IDs are unique only within a connection, so the same ID later is another call."""
        value = plain(message)
        requests = cast(list[Any], value if isinstance(value, list) else [value])
        return tuple(_call(request) for request in requests)

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """One response per request; an unknown tool is an error of the protocol, as the specification says."""
        return [self._response(outcome) for outcome in outcomes]

    def _response(self, outcome: Outcome) -> JsonObject:
        response: JsonObject = {"jsonrpc": "2.0", "id": outcome.call.id}
        error = outcome.result.error
        if outcome.unknown_tool and error is not None:
            data: JsonValue = error.model_dump(mode="json")
            return {**response, "error": {"code": _INVALID_PARAMS, "message": error.message, "data": data}}
        meta: JsonObject = {_TASK_META: outcome.task.id} if outcome.task else {}
        return {**response, "result": call_result(outcome.result, mode=self._mode, meta=meta)}


def _call(request: Any) -> ModelCall:
    match request:
        case {"method": "tools/call", "id": int() | str() as request_id, "params": {"name": name, **params}}:
            arguments = cast(dict[str, object], params).get("arguments")
            return replace(read_call(str(request_id), name, arguments), id=request_id, marks_retry=False)
        case _:
            raise BadRequest("This is not a `tools/call` request of JSON-RPC: method, id, and params with a name.")
