"""`outlast keys`: API keys in the operator's policy file."""

import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.api.cli.commands.policy import named_file
from outlast.api.cli.errors import BadInput, CliError, ExitCode
from outlast.api.cli.options import JsonOption
from outlast.api.cli.running import finish
from outlast.api.cli.show.output import Output
from outlast.api.cli.show.tables import Column

if TYPE_CHECKING:
    from outlast.api.access.policy.contracts import KeyEntry

app = typer.Typer(no_args_is_help=True, help="API keys in the policy file: create, list, revoke.")

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The policy file; by default the one that OUTLAST_POLICY_FILE names.")
]
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
    as_json: JsonOption = False,
) -> None:
    """Take a key out of the file. A running API refuses it within a second."""
    output = Output(as_json=as_json)
    finish(output, lambda: _revoke(output, file, key_id))


async def _create(
    output: Output, file: Path | None, caller: str, scopes: str, expires: str | None, key_id: str | None
) -> ExitCode:
    from pydantic import ValidationError  # noqa: PLC0415 (200 ms)

    from outlast.api.access.key_hashes import new_key  # noqa: PLC0415
    from outlast.api.access.policy.contracts import KeyEntry  # noqa: PLC0415
    from outlast.api.access.policy.key_edits import add_key  # noqa: PLC0415

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
    if output.as_json:
        output.document({"key": key.get_secret_value(), **_document(entry)})
    else:
        output.text(key.get_secret_value())
        output.note(f"The key {entry.id} of {entry.caller}. It is shown this one time: keep it now.")
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


async def _revoke(output: Output, file: Path | None, key_id: str) -> ExitCode:
    from outlast.api.access.policy.key_edits import remove_key  # noqa: PLC0415 (pydantic)

    with _policy_errors():
        was_there = remove_key(named_file(file), key_id)
    if not was_there:
        raise CliError(f"There is no key {key_id!r}.", exit_code=ExitCode.USAGE, hint="List them: `outlast keys list`")
    if output.as_json:
        output.document({"revoked": key_id})
    else:
        output.note(f"The key {key_id} is revoked.")
    return ExitCode.OK


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
