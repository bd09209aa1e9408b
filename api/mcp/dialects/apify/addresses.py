"""The addresses of the platform's API that the clients of Apify's own server read as resources.

That server reads any address of the API. Ours reads what its tools read: an account may belong to several callers, and
`/v2/users/me` has its password for proxies, `/v2/acts/...` the source and the variables of its Actors.
"""

from outlast.api.mcp.protocol.platform_addresses import PlatformAddress

_JSON = "application/json"
_BOUND = "What is larger than this server shows at once is answered by a note with its address."
_STORE, _RECORD = "get-key-value-store", "get-key-value-store-record"

ADDRESSES = (
    PlatformAddress(
        ("datasets", "{datasetId}", "items"),
        "get-dataset-items",
        "dataset-items",
        "{?limit,offset,clean,fields,format}",
        f"Rows of a dataset, as JSON unless format says otherwise; a page by limit and offset. {_BOUND}",
    ),
    PlatformAddress(
        ("key-value-stores", "{storeId}", "records", "{recordKey}"),
        _RECORD,
        "key-value-store-record",
        description=f"One record in its own content type. {_BOUND}",
    ),
    PlatformAddress(
        ("key-value-stores", "{storeId}", "keys"),
        "get-key-value-store-keys",
        "key-value-store-keys",
        "{?limit,exclusiveStartKey}",
        "Keys of a key-value store; the next page begins after exclusiveStartKey.",
        _JSON,
    ),
    PlatformAddress(
        ("actor-runs", "{runId}"),
        "get-actor-run",
        "actor-run",
        description="A run: its status, its storages, what it has used.",
        mime_type=_JSON,
        is_object=True,
    ),
    PlatformAddress(
        ("logs", "{runId}"),
        "get-actor-run-log",
        "actor-run-log",
        description=f"The log of a run. {_BOUND}",
        mime_type="text/plain",
    ),
    PlatformAddress(("datasets", "{datasetId}"), "get-dataset", is_object=True),
    PlatformAddress(("key-value-stores", "{storeId}"), _STORE, is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "log"), "get-actor-run-log"),
    PlatformAddress(("actor-runs", "{runId}", "dataset"), "get-dataset", is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "dataset", "items"), "get-dataset-items"),
    PlatformAddress(("actor-runs", "{runId}", "key-value-store"), _STORE, is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "key-value-store", "records", "{recordKey}"), _RECORD),
)
