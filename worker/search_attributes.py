"""Registers the search attributes of tasks. Repeating it changes nothing."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.workflows.contracts.search_attributes import ALL, DATETIMES, KEYWORD_LISTS


async def register_search_attributes(client: Client) -> None:
    """Add the search attributes that the namespace lacks. Raises `RPCError` when the server refuses."""
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    wanted = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in ALL}
    wanted |= {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST for key in KEYWORD_LISTS}
    wanted |= {key.name: IndexedValueType.INDEXED_VALUE_TYPE_DATETIME for key in DATETIMES}
    missing = {name: kind for name, kind in wanted.items() if name not in listed.custom_attributes}
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
    except RPCError as error:
        # Another process was faster.
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
