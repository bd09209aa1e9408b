"""`outlast chat` before a model answers, and the options of the command itself."""

from importlib.metadata import version

from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, FakeApi


def test_without_a_model_the_error_names_flags_variables_and_the_address(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("POST", "/v1/sessions", Answer({"id": "s-1"}, 201))
    ended = outlast("chat", "Hello?")
    assert ended.code == 2
    for named in ("--provider", "--model", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", fake_api.url):
        assert named in ended.said
    assert fake_api.requests("POST", "/v1/sessions/s-1/messages") == []


def test_the_version_is_printed(outlast: Outlast) -> None:
    ended = outlast("--version")
    assert (ended.code, ended.out.strip()) == (0, version("outlast"))
