"""Configuration files are changed in one place; all else in them, comments too, stays as somebody wrote it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from outlast.cli.install import config_files
from outlast.json_text import CannotEdit, NotJson, parsed, with_member, without_member

PATH = ("mcpServers", "outlast")
ENTRY: JsonValue = {"command": "outlast", "args": ["mcp"]}
NAMES = st.sampled_from(["mcpServers", "outlast", "other", 'a "quoted" name', "// no comment"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
SERVERS = st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2), max_size=3)


@given(
    document=st.dictionaries(NAMES.filter("mcpServers".__ne__), VALUES, max_size=4),
    servers=SERVERS | st.none(),
    indent=st.sampled_from([None, 0, 2, 4, "\t"]),
    is_ascii=st.booleans(),
)
def test_any_document_gets_the_member_and_loses_it_again(
    document: dict[str, JsonValue], servers: dict[str, JsonValue] | None, indent: int | str | None, is_ascii: bool
) -> None:
    whole = document if servers is None else {**document, "mcpServers": servers}
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
    assert parsed(text) == whole
    added = with_member(text, PATH, ENTRY)
    expected = {**whole, "mcpServers": {**(servers or {}), "outlast": ENTRY}}
    assert json.loads(added) == expected
    assert list(json.loads(added)) == list(expected)
    assert with_member(added, PATH, ENTRY) == added
    removed = json.loads(without_member(added, PATH))
    assert removed == {**whole, "mcpServers": {key: one for key, one in (servers or {}).items() if key != "outlast"}}
    if servers is not None and "outlast" not in servers and servers and indent is not None:
        assert without_member(added, PATH) == text, "adding and removing leaves no trace"


COMMENTED = """\
// my servers
{
\t"theme": "dark", /* at night */
\t"mcpServers": {
\t\t// of the team
\t\t"wiki": {"url": "https://wiki.example/mcp"}, // do not touch
\t\t"files": {"command": "files", "args": ["a",],} // the last one
\t\t// room for more
\t},
}
"""


def test_comments_trailing_commas_and_tabs_stay() -> None:
    added = with_member(COMMENTED, PATH, {"command": "outlast"})
    new = '\n\t\t"outlast": {\n\t\t\t"command": "outlast"\n\t\t}'
    expected = COMMENTED.replace('["a",],}', '["a",],},').replace("// room for more", f"// room for more{new}")
    assert added == expected
    assert without_member(added, PATH) == COMMENTED
    first = without_member(COMMENTED, ("mcpServers", "wiki"))
    assert first == COMMENTED.replace('"wiki": {"url": "https://wiki.example/mcp"},', "")
    changed = with_member(added, PATH, {"command": "other"})
    assert changed == expected.replace('"command": "outlast"', '"command": "other"')


def test_line_ends_of_windows_stay() -> None:
    text = '{\r\n    "mcpServers": {}\r\n}\r\n'
    added = with_member(text, PATH, {"command": "outlast"})
    assert "\n" not in added.replace("\r\n", "")
    assert '\r\n        "outlast": {\r\n            "command": "outlast"\r\n        }\r\n    }\r\n}\r\n' in added


@pytest.mark.parametrize(
    "text", ["{", "{]", '{"a": tru}', '{"a" 1}', "{} {}", '{"a": "\n"}', "{'a': 1}", "[" * 5000, "/*"]
)
def test_what_is_no_json_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(NotJson, match=r"^line 1, column \d+$"):
        with_member(text, PATH, ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"mcpServers": []}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"outlast": 1, "outlast": 2}}',
    ],
)
def test_what_has_no_place_for_the_member_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_member(text, PATH, ENTRY)


TOML = """\
# mine
model = "o9" # fast

[mcp_servers.outlast]
command = "old"

[mcp_servers.outlast.env]
A = "1"

# about profiles
[profiles.x]
notes = '''
[mcp_servers.other]
'''
"""


def test_a_toml_table_is_replaced_where_it_stands() -> None:
    path = ("mcp_servers", "outlast")
    changed = config_files.with_table(TOML, path, {"command": "new", "args": ["mcp"]})
    assert changed == TOML.replace('"old"\n\n[mcp_servers.outlast.env]\nA = "1"\n', '"new"\nargs = ["mcp"]\n')
    removed = config_files.without_table(TOML, path)
    assert removed == TOML.replace(
        '[mcp_servers.outlast]\ncommand = "old"\n\n[mcp_servers.outlast.env]\nA = "1"\n\n', ""
    )
    added = config_files.with_table(removed, path, {"command": "new"})
    assert added == f'{removed}\n[mcp_servers.outlast]\ncommand = "new"\n'
