"""Server-sent events, from bytes to events."""

import pytest

from outlast.client.http import ServerSentEvent, SseParser


def parse(*chunks: bytes) -> list[ServerSentEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_an_event_has_a_name_an_id_and_data() -> None:
    assert parse(b"id: 7.1\nevent: created\ndata: {}\n\n") == [ServerSentEvent("created", "{}", "7.1")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_is_known(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: 1", b"", b"data: 2", b"", b""]) + b"\n"
    assert parse(stream) == [ServerSentEvent("a", "1"), ServerSentEvent("message", "2")]


def test_chunks_may_end_anywhere_even_inside_a_character_or_a_line_end() -> None:
    stream = "event: größe\r\ndata: é\r\n\r\n".encode()
    for cut in range(len(stream)):
        assert parse(stream[:cut], stream[cut:]) == [ServerSentEvent("größe", "é")]


def test_a_line_separator_inside_json_does_not_end_the_line() -> None:
    assert parse('data: "a\u2028b\u0085c"\n\n'.encode()) == [ServerSentEvent("message", '"a\u2028b\u0085c"')]


def test_comments_unknown_fields_and_events_without_data_are_passed_over() -> None:
    assert parse(b": keep-alive\n\nretry: 2000\n\nevent: empty\n\nfoo: bar\ndata: 1\n\n") == [
        ServerSentEvent("message", "1")
    ]


def test_data_in_several_lines_is_one_text() -> None:
    assert parse(b"data: one\ndata:two\n\n") == [ServerSentEvent("message", "one\ntwo")]


def test_an_event_that_is_cut_off_is_not_given() -> None:
    assert parse(b"event: created\ndata: {}\n") == []
