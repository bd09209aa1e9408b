"""The calls that both servers get, on what they find on the same platform."""

from typing import Any

SLEEPER = "outlast/sleeper"
ENDED = {"actor": SLEEPER, "input": {"seconds": 0.1, "steps": 2, "rows": 3}}
LONG = {"actor": SLEEPER, "input": {"seconds": 300, "steps": 10}}
ENDS: dict[str, dict[str, Any]] = {
    "a failure": {"input": {"seconds": 0.1, "failWith": {"exitCode": 3, "message": "Out of luck"}}},
    "a time-out": {"input": {"seconds": 60}, "callOptions": {"timeout": 1}},
    "nothing": {"input": {"seconds": 0.1, "rows": 0}},
}
"""Runs that end otherwise than `ENDED`."""
NO_ID = "nothingHere12345x"

ANSWERED: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("search-actors", {"keywords": "sleeper", "limit": 2}),
    "search in vain": ("search-actors", {"keywords": "no such thing at all"}),
    "details": ("fetch-actor-details", {"actor": SLEEPER}),
    "details of nothing": ("fetch-actor-details", {"actor": SLEEPER, "output": {"readme": False}}),
    "pricing": ("fetch-actor-details", {"actor": SLEEPER, "output": {"pricing": True}}),
    "input schema": ("fetch-actor-details", {"actor": SLEEPER, "output": {"inputSchema": True}}),
    "a run": ("get-actor-run", {"runId": "$run"}),
    "a run at once": ("get-actor-run", {"runId": "$run", "waitSecs": 0}),
    "runs": ("get-actor-run-list", {"limit": 1, "desc": True}),
    "runs of an Actor": ("get-actor-run-list", {"actorId": SLEEPER, "status": "SUCCEEDED", "limit": "1"}),
    "a dataset": ("get-dataset", {"datasetId": "$dataset"}),
    "items": ("get-dataset-items", {"datasetId": "$dataset", "limit": 1, "unknown": True}),
    "some fields": ("get-dataset-items", {"datasetId": "$dataset", "fields": "index,seconds", "desc": True}),
    "no more items": ("get-dataset-items", {"datasetId": "$dataset", "offset": 50}),
    "a schema": ("get-dataset-schema", {"datasetId": "$dataset"}),
    "a store": ("get-key-value-store", {"keyValueStoreId": "$store"}),
    "keys": ("get-key-value-store-keys", {"keyValueStoreId": "$store", "limit": 1}),
    "a record": ("get-key-value-store-record", {"keyValueStoreId": "$store", "recordKey": "INPUT"}),
    "datasets": ("get-dataset-list", {"unnamed": True, "limit": 1}),
    "stores": ("get-key-value-store-list", {"unnamed": "true", "limit": 1}),
    "a report": ("report-problem", {"message": "It hurts.", "relatedTools": ["call-actor"]}),
}
"""Read-only calls that succeed; `$run`, `$dataset` and `$store` are those of a run that has ended."""

_SAVED, _RUNS, _DOCS, _WIDGETS = (
    "test_saved.py",
    "test_answers.py: calls of Actors",
    "test_answers.py",
    "test_widgets.py",
)
COMPARED_ELSEWHERE = {
    **dict.fromkeys(("call-actor", "get-actor-run-log", "abort-actor-run"), _RUNS),
    **dict.fromkeys(("search-apify-docs", "fetch-apify-docs"), _DOCS),
    **dict.fromkeys((f"{verb}-actor-task" for verb in ("create", "get", "update", "publish", "unpublish")), _SAVED),
    **dict.fromkeys((f"{verb}-schedule" for verb in ("create", "get", "update", "delete")), _SAVED),
    **dict.fromkeys(("search-actors-widget", "fetch-actor-details-widget"), _WIDGETS),
    **dict.fromkeys(("call-actor-widget", "get-actor-run-widget"), _WIDGETS),
}
"""Tools of which `ANSWERED` has no call, and the module that compares their answers with the peer's."""

REFUSED: dict[str, tuple[str, dict[str, Any] | None]] = {
    "an unknown tool": ("no-such-tool", {}),
    "no arguments": ("call-actor", None),
    "no Actor": ("call-actor", {}),
    "no input": ("call-actor", {"actor": SLEEPER}),
    "a long wait": ("call-actor", {**ENDED, "waitSecs": 99}),
    "a broken wait": ("call-actor", {**ENDED, "waitSecs": 1.5}),
    "a long wait of an Actor's tool": ("outlast--sleeper", {"waitSecs": 99}),
    "a broken wait of an Actor's tool": ("outlast--sleeper", {"waitSecs": 1.5}),
    "no wait of an Actor's tool": ("outlast--sleeper", {"waitSecs": "x"}),
    "little memory": ("call-actor", {**ENDED, "callOptions": {"memory": 1}}),
    "an unknown Actor": ("call-actor", {"actor": "outlast/nothing-there", "input": {}}),
    "an Actor that is no server": ("call-actor", {"actor": f"{SLEEPER}:tool", "input": {}}),
    "input that does not fit": ("call-actor", {"actor": SLEEPER, "input": {"seconds": "x"}}),
    "input of an Actor's tool": ("outlast--sleeper", {"seconds": "x"}),
    "details of an unknown Actor": ("fetch-actor-details", {"actor": "outlast/nothing-there"}),
    "an empty id": ("get-actor-run", {"runId": ""}),
    "an unknown run": ("get-actor-run", {"runId": NO_ID}),
    "an unknown run's log": ("get-actor-run-log", {"runId": NO_ID}),
    "many lines": ("get-actor-run-log", {"runId": "$run", "lines": 51}),
    "to abort an unknown run": ("abort-actor-run", {"runId": NO_ID}),
    "an unknown status": ("get-actor-run-list", {"status": "X"}),
    "runs of an unknown Actor": ("get-actor-run-list", {"actorId": "outlast/nothing-there"}),
    "an unknown dataset": ("get-dataset", {"datasetId": NO_ID}),
    "items of an unknown dataset": ("get-dataset-items", {"datasetId": NO_ID}),
    "the schema of an unknown dataset": ("get-dataset-schema", {"datasetId": NO_ID}),
    "an unknown store": ("get-key-value-store", {"keyValueStoreId": NO_ID}),
    "keys of an unknown store": ("get-key-value-store-keys", {"keyValueStoreId": NO_ID}),
    "a record of an unknown store": ("get-key-value-store-record", {"keyValueStoreId": NO_ID, "recordKey": "x"}),
    "an unknown record": ("get-key-value-store-record", {"keyValueStoreId": "$store", "recordKey": "nope"}),
    "a page elsewhere": ("fetch-apify-docs", {"url": "https://example.com/"}),
    "unknown documentation": ("search-apify-docs", {"query": "a", "docSource": "x"}),
    "many results": ("search-actors", {"limit": 11}),
}
"""Calls that fail; nothing is started by them."""
