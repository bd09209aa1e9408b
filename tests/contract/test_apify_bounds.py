"""How large answers of the mode `apify` may be: a setting says it, and what is cut fits the schema of its tool."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.paths import ROOT
from tests.support.stacks.service import Service, settings_environment

BOUND = 2_048
BESIDE = 2_000
"""What may stand beside the bounded part: ids, counts, sentences."""
CALL = {"actor": "outlast/sleeper", "input": {"seconds": 0.2, "steps": 100, "rows": 200, "note": "x" * 3 * BOUND}}


def widen(service: Service, dataset: str) -> None:
    """Write a row of many fields."""
    headers = {"Authorization": f"Bearer {service.sandbox.token}"}
    row = {f"a-field-{number}": number for number in range(500)}
    url = f"{service.sandbox.url}/v2/datasets/{dataset}/items"
    httpx.post(url, json=[row], headers=headers, trust_env=False, timeout=180).raise_for_status()


@pytest.mark.slow
async def test_a_setting_bounds_answers_within_their_schemas(service: Service, tmp_path: Path) -> None:
    moved = {"OUTLAST_DATA_DIR": str(tmp_path), "OUTLAST_OUTPUT_INLINE_LIMIT_BYTES": str(BOUND)}
    environment = settings_environment(service.temporal_address, service.sandbox, **moved)
    command = ["-m", "tests.support.http.stdio_server", "mode=apify", "tools=actors,runs,storage,tasks,schedules"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
    async with Client(stdio_client(server)) as mcp:
        schemas = {tool.name: tool.output_schema for tool in (await mcp.list_tools()).tools}

        async def data_of(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await mcp.call_tool(tool, arguments)
            assert not answer.is_error, answer
            Draft202012Validator(schemas[tool] or {}).validate(answer.structured_content)
            assert answer.structured_content is not None
            return answer.structured_content

        run = await data_of("call-actor", **CALL)
        dataset = run["storages"]["datasets"]["default"]["id"]
        store = run["storages"]["keyValueStores"]["default"]["id"]
        details = {"actor": "outlast/site-crawler", "output": {"readme": True}}
        schema_of = {"actor": "outlast/many-fields", "output": {"inputSchema": True}}
        wide = service.sandbox.new_dataset([{f"a-field-{number}": number for number in range(500)}])
        widen(service, dataset)
        task = await data_of("create-actor-task", actorId="outlast/sleeper", input=CALL["input"])
        actions = [{"actorId": "outlast/sleeper", "input": CALL["input"]}] * 2
        schedule = await data_of("create-schedule", cronExpression="@yearly", actions=actions)
        bounded = {
            "log": await data_of("get-actor-run-log", runId=run["runId"], lines=0),
            "items": await data_of("get-dataset-items", datasetId=dataset, limit=200),
            "schema": await data_of("get-dataset-schema", datasetId=dataset),
            "record": await data_of("get-key-value-store-record", keyValueStoreId=store, recordKey="INPUT"),
            "readme": await data_of("fetch-actor-details", **details),
            "input schema": await data_of("fetch-actor-details", **schema_of),
            "run": await data_of("get-actor-run", runId=run["runId"]),
            "dataset": await data_of("get-dataset", datasetId=wide),
            "task": await data_of("get-actor-task", taskId=task["taskId"]),
            "new task": task,
            "schedule": await data_of("get-schedule", scheduleId=schedule["scheduleId"]),
        }
    sizes = {name: len(json.dumps(data)) for name, data in bounded.items()}
    assert {name: size for name, size in sizes.items() if size > BOUND + BESIDE} == {}
    assert (0 < bounded["items"]["itemCount"] < 200, bounded["items"]["totalItemCount"]) == (True, 201)
    assert BOUND / 2 < len(bounded["readme"]["readme"]) <= BOUND
    assert bounded["record"]["value"].endswith("…"), "the rest is behind the link"
    assert 0 < len(bounded["run"]["storages"]["datasets"]["default"]["fields"]) < 500
    assert bounded["run"]["nextStep"].endswith(" more.")
    assert 0 < len(bounded["dataset"]["fields"]) < 500
    assert "are listed" in bounded["dataset"]["summary"]
    small = {name: value for name, value in CALL["input"].items() if name != "note"}
    shown = [task["input"], bounded["task"]["input"], *(each["input"] for each in bounded["schedule"]["actions"])]
    assert shown == [small] * 4
    assert bounded["input schema"]["inputSchema"]["properties"]
