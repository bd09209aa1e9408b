"""`list_tabs` without a browser: which tabs, in which groups and order, in which words; and what is refused."""

import contextlib
import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common.list_tabs import (
    LIST_TABS,
    MAX_TABS,
    MAX_TITLE_CHARS,
    MAX_URL_CHARS,
    NO_HOST,
    NOTHING_FOUND,
    BrowserTabs,
    ListTabsArguments,
    Tab,
    TabList,
    chosen,
    compiled,
    matching,
    ordered,
    tab_list,
)

ORDERS = ("title", "url", "host", "windowId", "tabId", "mode", "loading")
HOSTS = ("a.example", "B.example", "docs.example:8080", "xn--bcher-kva.example")
URLS = st.one_of(
    st.builds("https://{}/{}".format, st.sampled_from(HOSTS), st.text("abc?#/", max_size=5)),
    st.sampled_from(("about:blank", "data:text/html,x", "file:///tmp/x", "", "http://[", "chrome://settings/")),
)


def tab(number: int = 1, **fields: Any) -> Tab:
    plain = {"id": f"T{number}", "windowId": 1, "title": "t", "url": "https://a.example/"}
    return Tab.model_validate({**plain, "mode": "normal", "loading": False, **fields})


def asked(**arguments: Any) -> ListTabsArguments:
    return ListTabsArguments.model_validate(arguments)


TABS = st.lists(
    st.builds(
        tab,
        st.integers(1, 10_000),
        windowId=st.integers(0, 12),
        title=st.text(max_size=20),
        url=URLS,
        mode=st.sampled_from(("normal", "incognito")),
        loading=st.booleans(),
    ),
    max_size=30,
    unique_by=lambda each: each.id,
)
PATTERNS = st.none() | st.sampled_from(("a", "^https", "example/b", r"\d", "Ü", "(b|docs)", "zzz"))
ARGUMENTS = st.builds(
    asked,
    pattern=PATTERNS,
    hostFilter=PATTERNS,
    groupBy=st.sampled_from(("none", "window", "host", "mode")),
    windowId=st.none() | st.integers(0, 12) | st.lists(st.integers(0, 12), min_size=1, max_size=4),
    mode=st.none() | st.sampled_from(("normal", "incognito")),
    loading=st.none() | st.booleans(),
    orderBy=st.none() | st.sampled_from(ORDERS),
)


@given(TABS, ARGUMENTS)
def test_every_tab_that_fits_is_in_one_group_and_no_other_tab_is(tabs: list[Tab], arguments: ListTabsArguments) -> None:
    groups = chosen(tabs, arguments)
    listed = [each for group in groups for each in group.tabs]
    assert sorted(each.id for each in listed) == sorted(each.id for each in matching(tabs, arguments))
    assert all(group.tabs for group in groups)
    assert len({group.key for group in groups}) == len(groups)


@given(TABS, ARGUMENTS)
def test_a_tab_fits_when_it_fits_everything(tabs: list[Tab], arguments: ListTabsArguments) -> None:
    found = set(matching(tabs, arguments))
    for each in tabs:
        fits = [
            arguments.window_ids is None or each.window_id in arguments.window_ids,
            arguments.mode in (None, each.mode),
            each.mode == "normal"
            or arguments.mode == "incognito"
            or "mode" in (arguments.group_by, arguments.order_by),
            arguments.loading in (None, each.loading),
            arguments.pattern is None or any(_re(arguments.pattern, text) for text in (each.url, each.title)),
            arguments.host_filter is None or (each.host is not None and _re(arguments.host_filter, each.host)),
        ]
        assert (each in found) is all(fits)


@given(TABS, st.sampled_from(ORDERS))
def test_an_order_keeps_all_tabs_and_leaves_equals_as_they_were(tabs: list[Tab], order_by: Any) -> None:
    places = {each.id: place for place, each in enumerate(tabs)}
    once = ordered(tabs, order_by)
    assert sorted(each.id for each in once) == sorted(places)
    for one, next_one in itertools.pairwise(once):
        if one.model_copy(update={"id": ""}) == next_one.model_copy(update={"id": ""}) and order_by != "tabId":
            assert places[one.id] < places[next_one.id]


SHUFFLED = [
    tab(3, title="beta", url="https://b.example:8080/", windowId=2, mode="incognito", loading=False),
    tab(1, title="Alpha", url="https://b.example:9/", windowId=10, mode="normal", loading=True),
    tab(4, title="\u00e9clair", url="about:blank", windowId=1, mode="incognito", loading=False),
    tab(2, title="Zeta", url="https://a.example/", windowId=2, mode="normal", loading=False),
]


@pytest.mark.parametrize(
    ("order_by", "ids"),
    [
        (None, "3142"),
        ("title", "1324"),
        ("url", "4231"),
        ("host", "2134"),
        ("windowId", "4321"),
        ("tabId", "1234"),
        ("mode", "1234"),
        ("loading", "1342"),
    ],
)
def test_each_order_puts_these_tabs_in_this_sequence(order_by: Any, ids: str) -> None:
    """By title without regard to case, hosts with none last, windows by number, normal and loading first."""
    assert "".join(each.id[1:] for each in ordered(SHUFFLED, order_by)) == ids
    grouped = chosen(SHUFFLED, asked(orderBy=order_by, mode="normal", groupBy="none"))
    assert "".join(each.id[1:] for each in grouped[0].tabs) == "".join(i for i in ids if i in "12")


@given(TABS, ARGUMENTS, st.integers(0, 3))
def test_the_answer_counts_what_it_lists_and_keeps_its_promise(
    tabs: list[Tab], arguments: ListTabsArguments, omitted: int
) -> None:
    result = tab_list(chosen(tabs, arguments), arguments.group_by, omitted=omitted)
    answer = TabList.model_validate(result.structured)
    assert answer.count == sum(group.size for group in answer.groups)
    assert [group.size for group in answer.groups] == [len(group.tabs) for group in answer.groups]
    lines = result.text.split("\n")
    assert lines[0].startswith(f"# Found {answer.count} tab" if answer.count else NOTHING_FOUND)
    assert sum(line.startswith("- ") for line in lines) == answer.count


def test_windows_are_sorted_by_number() -> None:
    groups = chosen([tab(1, windowId=10), tab(2, windowId=9), tab(3, windowId=10)], asked(groupBy="window"))
    assert [(group.key, len(group.tabs)) for group in groups] == [(9, 1), (10, 2)]


def test_normal_comes_before_incognito() -> None:
    groups = chosen([tab(1, mode="incognito"), tab(2)], asked(groupBy="mode"))
    assert [group.key for group in groups] == ["normal", "incognito"]


def test_hosts_are_sorted_by_name_and_port_and_no_host_comes_last() -> None:
    urls = (
        "chrome://settings/",
        "http://localhost:8080/",
        "https://b.example:443/",
        "http://localhost:3000/a",
        "https://A.example/",
        "http://localhost:900/",
        "http://[",
        "file:///tmp/x",
        "http://localhost:3000/b",
        "http://[::1]:3000/",
    )
    groups = chosen([tab(number, url=url) for number, url in enumerate(urls)], asked(groupBy="host"))
    assert [(group.key, len(group.tabs)) for group in groups] == [
        ("[::1]:3000", 1),
        ("a.example", 1),
        ("b.example", 1),
        ("localhost:900", 1),
        ("localhost:3000", 2),
        ("localhost:8080", 1),
        (NO_HOST, 3),
    ]


@pytest.mark.parametrize(
    ("pattern", "count"), [("^localhost$", 1), ("^localhost:3000$", 1), ("localhost:8", 0), ("settings", 0)]
)
def test_a_host_filter_looks_at_the_host_with_and_without_its_port(pattern: str, count: int) -> None:
    tabs = [tab(1, url="http://localhost:3000/"), tab(2, url="chrome://settings/")]
    assert len(matching(tabs, asked(hostFilter=pattern))) == count


def test_the_answer_in_words() -> None:
    tabs = [
        tab(1, title="Two\nlines\u202e", url="https://a.example/x", windowId=3),
        tab(2, title="", url="about:blank", windowId=3),
        tab(3, title="Else", windowId=20),
    ]
    result = tab_list(chosen(tabs, asked(groupBy="window")), "window")
    assert result.text == (
        "# Found 3 tabs in 2 groups by window\n\n## Window 3 (2 tabs)\n- Two lines\n  https://a.example/x\n"
        "- (no title)\n  about:blank\n\n## Window 20 (1 tab)\n- Else\n  https://a.example/"
    )
    assert tab_list(chosen(tabs[:1], asked()), "none").text == "# Found 1 tab\n\n- Two lines\n  https://a.example/x"
    assert tab_list((), "host").text == NOTHING_FOUND


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"pattern": "("}, "/pattern"),
        ({"pattern": r"(a)\1"}, "/pattern"),
        ({"hostFilter": "(?=x)"}, "/hostFilter"),
        ({"pattern": "a" * 201}, "/pattern"),
        ({"pattern": ""}, "/pattern"),
        ({"pattern": r"(\pL{1,20}){1,20}"}, "/pattern"),
        ({"groupBy": "colour"}, "/groupBy"),
        ({"orderBy": "age"}, "/orderBy"),
        ({"mode": "private"}, "/mode"),
        ({"windowId": []}, "/windowId"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ToolError) as refused:
        LIST_TABS.parse(arguments)
    assert any(violation.path.startswith(path) for violation in refused.value.envelope.violations or ())


def test_the_schema_says_what_a_pattern_may_be() -> None:
    for name in ("pattern", "hostFilter"):
        schema = json.dumps(LIST_TABS.input_schema["properties"][name])  # type: ignore[index]
        assert '"format": "regex"' in schema
        assert '"maxLength": 200' in schema
        assert "RE2" in schema


@given(st.text(max_size=200))
def test_any_pattern_is_taken_or_refused(pattern: str) -> None:
    with contextlib.suppress(ValueError):
        compiled(pattern).search("https://a.example/" * 50)


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "^(.*a){25}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_patterns_that_ruin_backtracking_engines_do_no_harm_here(pattern: str) -> None:
    text = "a" * MAX_URL_CHARS + "!"
    tabs = [tab(number, url=text[-MAX_URL_CHARS:], title=text[-MAX_TITLE_CHARS:]) for number in range(MAX_TABS)]
    assert matching(tabs, asked(pattern=pattern)) == ()


@pytest.mark.parametrize(
    "answer",
    [
        {"tabs": [{"id": "T"}]},
        {"tabs": [tab().model_dump(by_alias=True)] * 2},
        {"tabs": [tab().model_dump(by_alias=True)], "problem": "none"},
        {"tabs": [{**tab().model_dump(by_alias=True), "url": "x" * (MAX_URL_CHARS + 1)}]},
        {"tabs": [{**tab().model_dump(by_alias=True), "favicon": "x"}]},
        {},
    ],
)
def test_a_client_that_answers_something_else_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BrowserTabs.model_validate(answer)


def test_the_largest_answer_is_within_what_the_server_takes() -> None:
    largest = [
        tab(number, id=f"{number:064}", url="u" * MAX_URL_CHARS, title="\N{GRINNING FACE}" * MAX_TITLE_CHARS)
        for number in range(MAX_TABS)
    ]
    assert len(BrowserTabs(tabs=tuple(largest), omitted=1).model_dump_json(by_alias=True).encode()) < 4 * 1024 * 1024


def _re(pattern: str, text: str) -> bool:
    """The same by another engine, for patterns that mean the same in both."""
    return re.search(pattern, text, re.IGNORECASE) is not None
