"""Secrets of tools: which names can be declared, where the values come from, and texts without them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from outlast import SyncToolContext, ToolContext, tool
from outlast.activities.tool_secrets import MissingSecret, ToolSecrets, hide_known
from outlast.testing import ToolTest, call
from outlast.workflows.tools.framework.journal import digest_of

VALUE = "hunter2hunter2"
SECRETS = {"PAY_KEY": VALUE}


def charge(key: SecretStr, amount: int) -> str:
    return f"paid {amount} with {key}"


def shout(text: str) -> str:
    return text


def fail(text: str) -> str:
    raise LookupError(text)


@tool(secrets=["PAY_KEY"])
async def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    return await ctx.step(charge, ctx.secret("PAY_KEY"), amount)


@tool(secrets=["PAY_KEY"])
def leak(ctx: SyncToolContext) -> list[str]:
    """Leak in a thread."""
    key = ctx.secret("PAY_KEY").get_secret_value()
    failure = ""
    try:
        ctx.step(fail, f"no {key}")
    except LookupError as error:
        failure = str(error)
    return [ctx.step(shout, key), failure, f"the {key}"]


@tool(secrets=["PAY_KEY"])
async def recording(ctx: ToolContext) -> str:
    """Record the secret itself."""
    return (await ctx.step(ctx.secret, "PAY_KEY")).get_secret_value()


@tool(secrets=["PAY_KEY"], approval=lambda _: True)
async def undeclared(ctx: ToolContext) -> str:
    """Read another secret."""
    return ctx.secret("PAY_KEI").get_secret_value()


@pytest.mark.parametrize("names", ["STRIPE_KEY", 3, [""], ["1ST"], ["A-B"], ["A B"], [3], ["x" * 65]])
def test_only_names_of_variables_can_be_declared(names: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="secrets="):
        tool(secrets=names)(charge)


def test_older_versions_have_the_secrets_of_their_tool() -> None:
    @tool(secrets=["PAY_KEY"], version=2)
    def newest() -> str:
        """Do it."""
        return ""

    @newest.version(1)
    def older() -> str:  # pyright: ignore[reportUnusedFunction]
        """Do it."""
        return ""

    assert newest.definition.older_versions[0].secrets == ("PAY_KEY",)


def test_a_value_comes_from_the_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from the file\n")
    file = {"KEY_FILE": str(tmp_path / "key")}
    assert ToolSecrets.read(["KEY"], file).value("KEY").get_secret_value() == "from the file"
    assert ToolSecrets.read(["KEY"], {**file, "KEY": VALUE}).value("KEY").get_secret_value() == VALUE
    assert ToolSecrets.read(["KEY"], {**file, "KEY": ""}).value("KEY").get_secret_value() == "from the file"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "Neither KEY nor KEY_FILE is set"),
        ({"KEY": ""}, "Neither KEY nor KEY_FILE is set"),
        ({"KEY_FILE": "/absent"}, "KEY_FILE: /absent cannot be read"),
        ({"KEY": "\udcff1234567"}, "KEY is not text in UTF-8"),
    ],
)
def test_a_missing_value_has_a_reason(environment: dict[str, str], reason: str) -> None:
    with pytest.raises(MissingSecret, match=reason):
        ToolSecrets.read(["KEY"], environment)


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("value", [VALUE, 'a "b"/c+d é', "two\n  lines \\ of it", " blanks around "])
def test_a_value_is_hidden_in_its_spellings(before: str, value: str) -> None:
    secrets = ToolSecrets({"KEY": value})
    data = f"{before}{value}!".encode()
    for text in (
        value, value.strip(), repr(value), json.dumps([value]), json.dumps(value, ensure_ascii=False),
        " ".join(value.split()), base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex(),
    ):  # fmt: skip
        hidden = secrets.hide(f"<{text}>")
        assert "[secret KEY]" in hidden
        assert value.strip() not in hidden


def test_the_longest_of_two_values_is_hidden_as_a_whole() -> None:
    secrets = ToolSecrets({"SHORT": "hunter", "LONG": "hunter-long"})
    assert secrets.hide("hunter-long hunter") == "[secret LONG] [secret SHORT]"


def test_a_short_value_is_left() -> None:
    assert ToolSecrets({"PIN": "12345"}).hide("12345") == "12345"


def test_json_is_hidden_in_names_and_values_and_keeps_other_values() -> None:
    given = {"n": [1, 1.5, None, True, VALUE], f"x{VALUE}": {"deep": (VALUE,)}}
    hidden = ToolSecrets(SECRETS).hide_in(given)
    mark = "[secret PAY_KEY]"
    assert hidden == {"n": [1, 1.5, None, True, mark], f"x{mark}": {"deep": [mark]}}


def test_a_digest_does_not_depend_on_the_value() -> None:
    other = "another value"
    old, new = ToolSecrets(SECRETS), ToolSecrets({"PAY_KEY": other})
    assert digest_of((f"Bearer {VALUE}", 3), old) == digest_of((f"Bearer {other}", 3), new)
    assert digest_of(SecretStr(VALUE)) == digest_of(SecretStr(other))
    assert digest_of((VALUE, 3)) == digest_of((VALUE, 3), ToolSecrets())


async def test_a_secret_shows_no_value() -> None:
    assert (await call(pay, SECRETS, amount=3)).text == "paid 3 with **********"


async def test_what_a_function_hands_over_is_hidden_and_the_same_in_each_attempt() -> None:
    test = ToolTest(secrets=SECRETS, crash_after=["shout"])
    answer = await test.call(leak)
    mark = "[secret PAY_KEY]"
    assert answer.structured == {"result": [mark, f"no {mark}", f"the {mark}"]}
    assert test.attempts == 2


async def test_a_secret_cannot_be_the_result_of_a_step() -> None:
    answer = await call(recording, SECRETS)
    assert answer.error is not None
    assert "returned a secret, which is not recorded" in answer.error.message


async def test_an_undeclared_secret_suggests_the_declared_ones() -> None:
    context = ToolContext("task", "ann", secrets=ToolSecrets(SECRETS))
    with pytest.raises(ValueError, match=r"write @tool\(secrets=\['PAY_KEI'\]\). It declares: PAY_KEY."):
        await undeclared.function(context)


async def test_a_test_without_a_secret_is_told_what_to_write() -> None:
    with pytest.raises(AssertionError, match=r"ToolTest\(secrets=\{'PAY_KEY': 'test-value'\}\)"):
        await call(pay, amount=3)


async def test_a_missing_value_fails_before_anybody_is_asked() -> None:
    test = ToolTest(secrets={"PAY_KEY": ""}, approvals=[True])
    answer = await test.call(undeclared)
    assert answer.error is not None
    assert (
        answer.error.message == "undeclared needs the secret PAY_KEY, which its worker does not have. It was not run."
    )
    assert test.asked == []


async def test_values_of_tests_do_not_stay() -> None:
    await call(pay, SECRETS, amount=3)
    assert hide_known(VALUE) == VALUE


@pytest.mark.parametrize("arguments", [{"key": VALUE}, {"deep": [{"text": f"Bearer {VALUE}"}]}])
async def test_a_secret_is_no_argument_of_another_tool(arguments: dict[str, Any]) -> None:
    @tool(secrets=["PAY_KEY"])
    async def passing(ctx: ToolContext) -> str:
        ctx.secret("PAY_KEY")
        return (await ctx.call("other", arguments)).text

    test = ToolTest(secrets=SECRETS, calls={"other": "called"})
    error = (await test.call(passing)).error
    assert error is not None
    assert (error.category, "holds a secret" in error.message, test.called) == ("validation", True, [])
