"""Registers the search attributes of tasks. Repeating it changes nothing."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.workflows.contracts.search_attributes import ALL, DATETIMES, KEYWORD_LISTS

log = logging.getLogger("outlast.worker")

KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
KEYWORD_LIST = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
DATETIME = IndexedValueType.INDEXED_VALUE_TYPE_DATETIME

SearchAttributes = Mapping[str, IndexedValueType.ValueType]

WANTED: SearchAttributes = {
    **{key.name: KEYWORD for key in ALL},
    **{key.name: KEYWORD_LIST for key in KEYWORD_LISTS},
    **{key.name: DATETIME for key in DATETIMES},
}
"""The search attributes of tasks, with their types."""
REFUSALS = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED})
"""Error text of servers whose search attributes are managed elsewhere, such as Temporal Cloud."""
_PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.1
_TYPES = {KEYWORD: "Keyword", KEYWORD_LIST: "KeywordList", DATETIME: "Datetime"}


def type_name(kind: IndexedValueType.ValueType) -> str:
    """Return the name of a type in Temporal's tools."""
    return _TYPES[kind]


async def missing_search_attributes(client: Client) -> SearchAttributes:
    """Return attributes that the namespace lacks or has with another type. Raises `RPCError`."""
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return {name: kind for name, kind in WANTED.items() if listed.custom_attributes.get(name) != kind}


async def register_search_attributes(client: Client) -> None:
    """Add the search attributes that the namespace lacks, and wait until workflows can have them.

    Raises `RuntimeError` where they are missing and the server lets nobody add them with this credential, `RPCError`
    when it does not answer. A server that does not even list them is trusted to have them.
    """
    try:
        missing = await missing_search_attributes(client)
    except RPCError as error:
        if error.status not in REFUSALS:
            raise
        log.warning("The server does not list search attributes; `outlast admin setup` names those that it needs")
        return
    try:
        if missing:
            await add_search_attributes(client, missing)
        # Another process may have added them this very moment.
        await until_known(client, WANTED)
    except RPCError as error:
        if error.status not in REFUSALS:
            raise
        names = ", ".join(f"{name} ({type_name(kind)})" for name, kind in missing.items())
        raise RuntimeError(
            f"The namespace {client.namespace} lacks the search attributes {names}, and this credential may not add "
            "them. `outlast admin setup` shows how."
        ) from error


async def until_known(client: Client, names: Iterable[str]) -> None:
    """Wait until the server takes these search attributes, for a minute at most. Raises `RPCError`.

    It lists one as soon as it is added, and refuses workflows that have it until it has read the namespace again: after
    two seconds with the embedded server, ten and more with others.
    """
    conditions = " AND ".join(f"{name} IS NULL" for name in names)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            await client.count_workflows(f"WorkflowId = 'none' AND {conditions}")
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            if time.monotonic() > deadline:
                log.warning("The server does not know all search attributes yet: %s", error)
                return
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def add_search_attributes(client: Client, missing: SearchAttributes) -> None:
    """Add them; that another process was faster is no error. Raises `RPCError`."""
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
