"""A test of docs/writing-a-tool.md on a stack, with the fixture of Outlast's pytest plugin."""

from outlast.pytest_plugin import Stack


def test_hello_on_a_stack(outlast_stack: Stack) -> None:
    """The tool runs on a worker."""
    with outlast_stack.client() as client:
        assert client.call("hello_world", {"name": "Ann"}).text == "Hello, Ann!"
