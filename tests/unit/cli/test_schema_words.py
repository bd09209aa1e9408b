"""Input schemas in words."""

from outlast.cli.commands.tools import ArgumentWords, describe_arguments, example_arguments, type_words

SCHEMA = {
    "type": "object",
    "properties": {
        "startUrls": {"type": "array", "description": "Where to\nbegin.", "prefill": [{"url": "https://a.example"}]},
        "scope": {"type": "string", "enum": ["host", "any"], "default": "host"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "options": {"$ref": "#/$defs/Options"},
    },
    "required": ["startUrls"],
}


def test_every_argument_is_described_in_one_line() -> None:
    assert describe_arguments(SCHEMA) == [
        ArgumentWords("startUrls", "array", True, "Where to begin."),
        ArgumentWords("scope", "string", False, 'One of host, any. Default "host".'),
        ArgumentWords("limit", "integer", False, ""),
        ArgumentWords("options", "object", False, ""),
    ]


def test_the_example_holds_what_must_be_given() -> None:
    assert example_arguments(SCHEMA) == '{"startUrls": [{"url": "https://a.example"}]}'
    assert example_arguments({}) == "{}"


def test_types_are_named_without_null() -> None:
    assert type_words({"type": ["string", "null"]}) == "string"
    assert type_words({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}) == "number | string"
    assert type_words({}) == "any"
