"""`outlast keys`: API keys in the policy file."""

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

from outlast.cli.commands.admin import named_file
from outlast.cli.options import BadInput, CliError, ExitCode, Options
from outlast.cli.runner import local_command, trying_once
from outlast.cli.show.output import Column, Output
from outlast.client import OutlastError

if TYPE_CHECKING:
    from outlast.api.access.policy.contracts import KeyEntry

app = typer.Typer(name="keys", no_args_is_help=True, help="Create, list and revoke API keys in the policy file.")

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The policy file. Default: that of OUTLAST_POLICY_FILE.")
]
_HOLDINGS_SECONDS = 10
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@local_command(app)
async def create(
    output: Output,
    caller: Annotated[str, typer.Option(help="Caller of the key: a name, or `key:NAME`.")],
    scopes: Annotated[
        str, typer.Option(help="Scopes of the key, comma-separated: call, read, cancel, approve, admin.")
    ] = "call,read,cancel",
    expires: Annotated[
        str | None, typer.Option(help="When it expires: 12h, 90d, 4w, or a time such as 2027-01-31. Default: never.")
    ] = None,
    key_id: Annotated[str | None, typer.Option("--id", help="The public part of the key. Default: a new one.")] = None,
    file: FileOption = None,
) -> None:
    """Create a key and print it, only this once: the file contains a hash. A running API accepts it within a second."""
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
        return
    output.text(key.get_secret_value())
    output.note(f"The key {entry.id} of {entry.caller}. It is shown only this once: store it now.")
    if anonymous not in (None, "none"):
        output.note(f'Requests without a key are still accepted as `local`: the file has anonymous = "{anonymous}".')


@local_command(app, "list")
async def list_keys(output: Output, file: FileOption = None) -> None:
    """List the keys: their callers, scopes and expiry."""
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


@local_command(app, with_server=True)
async def revoke(
    output: Output,
    options: Options,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, from `outlast keys list`.")],
    file: FileOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Revoke the last key without a prompt.")] = False,
) -> None:
    """Remove a key from the file. A running API rejects it within a second, and ends the streams opened with it.

    Lists what the caller still has, if the server answers and your own key has the scope `admin`: webhooks, schedules
    and saved calls stay. Prompts before it removes the last key: from then on, requests need other credentials.
    """
    from outlast.api.access.policy.policy_file import read_policy, remove_key  # noqa: PLC0415

    with _policy_errors():
        policy = read_policy(named_file(file))
    entry = next((key for key in policy.keys if key.id == key_id), None)
    if entry is None:
        raise CliError(f"There is no key {key_id!r}.", exit_code=ExitCode.USAGE, hint="List them: `outlast keys list`")
    others = [key for key in policy.keys if key.id != key_id and not key.is_expired()]
    # Before the last key is removed, since no other key could query. Otherwise after: the key may be stolen.
    holdings = None if others else await _holdings(options, entry.caller)
    if not others and not yes:
        _ask_about_last(output, entry, policy.anonymous, holdings)
    with _policy_errors():
        remove_key(named_file(file), key_id)
    holdings = await _holdings(options, entry.caller) if holdings is None else holdings
    left = [key.id for key in others if key.caller == entry.caller]
    if output.as_json:
        output.document({"revoked": key_id, **({} if isinstance(holdings, str) else {"holdings": holdings})})
        return
    output.note(f"The key {key_id} is revoked. Its open streams end within a second.")
    if not others:
        output.note(_without_keys(policy.anonymous))
    output.note(f"{entry.caller} has other keys: {', '.join(left)}" if left else f"{entry.caller} has no other key.")
    for line in _held(entry.caller, holdings):
        output.note(line)


def _ask_about_last(
    output: Output, entry: "KeyEntry", anonymous: str | None, holdings: dict[str, object] | str | None
) -> None:
    """Prompt for a confirmation. Raises `CliError` if there is no terminal, or the user says no."""
    lines = [f"{entry.id} is the last valid key of the file. {_without_keys(anonymous)}"]
    lines += _held(entry.caller, holdings or "")
    if output.as_json or not sys.stdin.isatty():
        hint = "Add --yes to revoke the key anyway."
        raise CliError("\n".join(lines), exit_code=ExitCode.USAGE, hint=hint)
    for line in lines:
        output.note(line)
    if not typer.confirm("Revoke it?", err=True):
        raise CliError("Nothing was changed.", exit_code=ExitCode.USAGE)


def _without_keys(anonymous: str | None) -> str:
    if anonymous in (None, "none"):
        return (
            "Without it, a request needs a key of OUTLAST_API_KEYS, an access token or an Apify token: "
            'the file then has anonymous = "none".'
        )
    return (
        f'The file has anonymous = "{anonymous}": on loopback, requests without a key are still accepted as `local`, '
        "with all scopes."
    )


async def _holdings(options: Options, caller: str) -> dict[str, object] | str:
    """Return what the caller has besides its keys; if the server cannot list it, the reason."""
    try:
        async with asyncio.timeout(_HOLDINGS_SECONDS), trying_once(options) as client:
            return (await client.holdings(caller)).model_dump(mode="json", exclude={"caller"})
    except TimeoutError:
        return "the server does not answer"
    except OutlastError as error:
        return str(error)


def _held(caller: str, holdings: dict[str, object] | str) -> list[str]:
    if isinstance(holdings, str):
        return [f"Webhooks, schedules, saved calls and open streams of {caller} could not be listed: {holdings}"]
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
    """Parse a duration from now, or a time, in UTC unless it has a zone. Raises `BadInput`."""
    if match := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return (datetime.now(UTC) + int(match[1]) * _UNITS[match[2]]).replace(microsecond=0)
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"--expires: {text!r} is not a time. Write 90d, 12h, 4w, or a date such as 2027-01-31."
        ) from None
    return end if end.tzinfo else end.replace(tzinfo=UTC)


def _document(key: "KeyEntry") -> dict[str, object]:
    found = key.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
    return {**found, "scopes": sorted(key.scopes), "expired": key.is_expired()}


def _row(key: "KeyEntry") -> list[str]:
    created = f"{key.created:%Y-%m-%d}" if key.created else ""
    expires = f"{key.expires:%Y-%m-%d %H:%M}" if key.expires else "never"
    return [key.id, key.caller, ", ".join(sorted(key.scopes)), created, f"{expires}{' (expired)' * key.is_expired()}"]
