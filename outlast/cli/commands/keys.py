"""`outlast keys`: API keys in the operator's policy file."""

import asyncio
import re
import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from pydantic import ValidationError

from outlast.cli.commands.policy import named_file
from outlast.cli.connection import trying_once
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output
from outlast.cli.show.tables import Column
from outlast.client import OutlastError

if TYPE_CHECKING:
    from outlast.api.access.policy.contracts import KeyEntry

app = typer.Typer(no_args_is_help=True, help="API keys in the policy file: create, list, revoke.")

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The policy file; by default the one that OUTLAST_POLICY_FILE names.")
]
_HOLDINGS_SECONDS = 10
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@app.command()
def create(
    caller: Annotated[str, typer.Option(help="Whose key it is: a name, or `key:NAME`.")],
    scopes: Annotated[
        str, typer.Option(help="What it may be used for, comma-separated: call, read, cancel, approve, admin.")
    ] = "call,read,cancel",
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 12h, 90d, 4w, or a time as 2027-01-31. Never without.")
    ] = None,
    key_id: Annotated[
        str | None, typer.Option("--id", help="The part of the key that is no secret; by default a new one.")
    ] = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it, this one time: the file keeps a hash. A running API takes it within a second."""
    output = Output(as_json=as_json)
    finish(output, lambda: _create(output, file, caller, scopes, expires, key_id))


@app.command("list")
def list_keys(file: FileOption = None, as_json: JsonOption = False) -> None:
    """List the keys: whose they are, what they may be used for, and when they end."""
    output = Output(as_json=as_json)
    finish(output, lambda: _list(output, file))


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `outlast keys list` shows it.")],
    file: FileOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the last key of the file is revoked.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Take a key out of the file. A running API refuses it within a second, and ends the streams opened with it.

    Lists what else its caller has, if the server answers and your own key has the scope `admin`: webhooks, schedules
    and saved calls stay. The last key of the file is revoked after a question; from then on nobody is let in without
    other credentials.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: _revoke(output, file, key_id, Options(url, token, data_dir, as_json), is_sure=yes))


async def _create(
    output: Output, file: Path | None, caller: str, scopes: str, expires: str | None, key_id: str | None
) -> ExitCode:

    from outlast.api.access.api_keys import new_key  # noqa: PLC0415
    from outlast.api.access.policy.contracts import KeyEntry  # noqa: PLC0415
    from outlast.api.access.policy.policy_file import add_key, read_policy  # noqa: PLC0415

    name = caller.removeprefix("key:")
    key_id = key_id or f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')[:40] or 'key'}-{secrets.token_hex(3)}"
    key, hashed = new_key(key_id)
    try:
        entry = KeyEntry.model_validate(
            {
                "id": key_id,
                "caller": f"key:{name}",
                "hash": str(hashed),
                "created": datetime.now(UTC).replace(microsecond=0),
                "expires": _end(expires) if expires else None,
                "scopes": [scope.strip() for scope in scopes.split(",") if scope.strip()],
            }
        )
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        raise BadInput("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)) from None
    with _policy_errors():
        add_key(named_file(file), entry)
        anonymous = read_policy(named_file(file)).anonymous
    if output.as_json:
        output.document({"key": key.get_secret_value(), **_document(entry)})
        return ExitCode.OK
    output.text(key.get_secret_value())
    output.note(f"The key {entry.id} of {entry.caller}. It is shown this one time: keep it now.")
    if anonymous not in (None, "none"):
        output.note(f'Requests without a key are still let in as `local`: the file says anonymous = "{anonymous}".')
    return ExitCode.OK


async def _list(output: Output, file: Path | None) -> ExitCode:
    from outlast.api.access.policy.policy_file import read_policy  # noqa: PLC0415 (pydantic)

    with _policy_errors():
        keys = read_policy(named_file(file)).keys
    if output.as_json:
        output.document({"keys": [_document(key) for key in keys]})
    elif keys:
        columns = [Column(name) for name in ("ID", "CALLER", "SCOPES", "CREATED", "EXPIRES")]
        output.table(columns, [_row(key) for key in keys])
    else:
        output.note("There are no keys. Create one: `outlast keys create --caller NAME`")
    return ExitCode.OK


async def _revoke(output: Output, file: Path | None, key_id: str, options: Options, *, is_sure: bool) -> ExitCode:
    from outlast.api.access.policy.policy_file import read_policy, remove_key  # noqa: PLC0415

    with _policy_errors():
        policy = read_policy(named_file(file))
    entry = next((key for key in policy.keys if key.id == key_id), None)
    if entry is None:
        raise CliError(f"There is no key {key_id!r}.", exit_code=ExitCode.USAGE, hint="List them: `outlast keys list`")
    others = [key for key in policy.keys if key.id != key_id and not key.is_expired()]
    # Of the last key beforehand, since no key may be left that could ask. Else afterwards: a key may be stolen.
    holdings = None if others else await _holdings(options, entry.caller)
    if not others and not is_sure:
        _ask_about_last(output, entry, policy.anonymous, holdings)
    with _policy_errors():
        remove_key(named_file(file), key_id)
    holdings = await _holdings(options, entry.caller) if holdings is None else holdings
    left = [key.id for key in others if key.caller == entry.caller]
    if output.as_json:
        output.document({"revoked": key_id, **({} if isinstance(holdings, str) else {"holdings": holdings})})
        return ExitCode.OK
    output.note(f"The key {key_id} is revoked. Its open streams end within a second.")
    if not others:
        output.note(_without_keys(policy.anonymous))
    output.note(f"{entry.caller} has other keys: {', '.join(left)}" if left else f"{entry.caller} has no other key.")
    for line in _held(entry.caller, holdings):
        output.note(line)
    return ExitCode.OK


def _ask_about_last(
    output: Output, entry: "KeyEntry", anonymous: str | None, holdings: dict[str, object] | str | None
) -> None:
    """Have a person confirm the end of the last key. Raises `CliError` where nobody can be asked, and at a no."""
    lines = [f"{entry.id} is the last key of the file that is good. {_without_keys(anonymous)}"]
    lines += _held(entry.caller, holdings or "")
    if output.as_json or not sys.stdin.isatty():
        hint = "Repeat it with --yes to revoke the key all the same."
        raise CliError("\n".join(lines), exit_code=ExitCode.USAGE, hint=hint)
    for line in lines:
        output.note(line)
    if not typer.confirm("Revoke it?", err=True):
        raise CliError("Nothing was changed.", exit_code=ExitCode.USAGE)


def _without_keys(anonymous: str | None) -> str:
    """Who is let in once the file has no key."""
    if anonymous in (None, "none"):
        return (
            "Without it, every request is refused that has no key of OUTLAST_API_KEYS, access token or Apify token: "
            'the file then says anonymous = "none".'
        )
    return (
        f'The file says anonymous = "{anonymous}": on loopback, every request without a key is still answered as '
        "`local`, with all scopes."
    )


async def _holdings(options: Options, caller: str) -> dict[str, object] | str:
    """What the caller has besides its keys; the reason where that cannot be known."""

    try:
        async with asyncio.timeout(_HOLDINGS_SECONDS), trying_once(options) as client:
            return (await client.holdings(caller)).model_dump(mode="json", exclude={"caller"})
    except TimeoutError:
        return "the server does not answer"
    except OutlastError as error:
        return str(error)


def _held(caller: str, holdings: dict[str, object] | str) -> list[str]:
    """The lines that say what stays."""
    if isinstance(holdings, str):
        unknown = f"What else {caller} has (webhooks, schedules, saved calls, open streams) could not be listed"
        return [f"{unknown}: {holdings}"]
    words = {name: value for name, value in holdings.items() if value}
    if not words:
        return [f"{caller} has no webhook, schedule, saved call, open task or open stream."]
    lines = [f"{caller} still has:"]
    for name, value in words.items():
        shown = ", ".join(map(str, cast(list[object], value))) if isinstance(value, list) else value
        lines.append(f"  {name.replace('_', ' ')}: {shown}")
    return lines


@contextmanager
def _policy_errors() -> Generator[None]:
    from outlast.api.access.policy.policy_file import PolicyError  # noqa: PLC0415 (pydantic)

    try:
        yield
    except PolicyError as error:
        raise CliError(f"The policy file cannot be used. {error}", exit_code=ExitCode.FAILED) from error


def _end(text: str) -> datetime:
    """A length of time from now, or a time; one without a zone is UTC."""
    if match := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return (datetime.now(UTC) + int(match[1]) * _UNITS[match[2]]).replace(microsecond=0)
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--expires: {text!r} is no time. Write 90d, 12h, 4w, or a date as 2027-01-31.") from None
    return end if end.tzinfo else end.replace(tzinfo=UTC)


def _document(key: "KeyEntry") -> dict[str, object]:
    found = key.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
    return {**found, "scopes": sorted(key.scopes), "expired": key.is_expired()}


def _row(key: "KeyEntry") -> list[str]:
    created = f"{key.created:%Y-%m-%d}" if key.created else ""
    expires = f"{key.expires:%Y-%m-%d %H:%M}" if key.expires else "never"
    return [key.id, key.caller, ", ".join(sorted(key.scopes)), created, f"{expires}{' (over)' * key.is_expired()}"]
