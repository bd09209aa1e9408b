"""The base class of every contract, and what most of them contain: the caller, its secrets, and errors of tools.

Contracts are frozen and import no I/O library, so that workflow code can use them. A field that is added later has
a default. Errors have one form for REST, events and models.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Union, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, core_schema

from outlast.activities.unicode_text import ValidText

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of some content, in hexadecimal digits."""
JsonObject = dict[str, JsonValue]
"""A JSON object whose shape is not known here."""


class Contract(BaseModel):
    """Base of every model that crosses a process boundary: frozen, and ignores fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def document(self) -> dict[str, JsonValue]:
        """The model as JSON for readers: without fields that are null, with those that a newer version has added."""
        return _document(self, self.model_dump(mode="json", exclude_none=True, by_alias=True))


def _document(value: Any, dumped: Any) -> Any:
    """`dumped` with the fields that `value` and its parts were read with besides their own."""
    if isinstance(value, BaseModel):
        added = {name: part for name, part in (value.model_extra or {}).items() if part is not None}
        names = {field.serialization_alias or name: name for name, field in type(value).model_fields.items()}
        own = {key: _document(getattr(value, names[key]), dumped[key]) for key in dumped.keys() & names.keys()}
        return {**{key: own.get(key, part) for key, part in dumped.items()}, **added}
    if isinstance(value, dict):
        return {key: _document(cast("dict[str, Any]", value).get(key), part) for key, part in dumped.items()}
    if isinstance(value, list | tuple):
        return [_document(one, part) for one, part in zip(cast("list[Any]", value), dumped, strict=True)]
    return float(value) if isinstance(value, Decimal) else dumped


class _Open:
    """Annotates a field of named values: it is documented as these, and takes the name of any other as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        named = tuple(part for part in get_args(source) if part is not str)
        known = handler.generate_schema(Union[named] if str in get_args(source) else source)  # noqa: UP007 (a tuple)
        as_it_is = core_schema.simple_ser_schema("any")
        return core_schema.no_info_wrap_validator_function(_named_or_text, known, serialization=as_it_is)


def _named_or_text(value: object, known: ValidatorFunctionWrapHandler) -> Any:
    try:
        return known(value)
    except ValidationError:
        if isinstance(value, str):
            return value
        raise


OPEN = _Open()
"""For values that a client or another version reads: one that a newer version has added stays as text."""


class SealedSecret(Contract):
    """A secret as histories hold it: encrypted with AES-256-GCM under the key `key_id`, see `activities.secrets`."""

    key_id: str
    ciphertext: str = Field(description="Base64 of nonce and ciphertext.")


class CallPayment(Contract):
    """Payment for the platform's requests of one call, in place of an account."""

    protocol: str = Field(description="`skyfire` or `x402`: selects the headers that carry it.")
    secret: SealedSecret


LOCAL_CALLER_ID: Final = "local"
"""ID of the caller without a credential, on the operator's own machine."""


class Caller(Contract):
    """The caller of a tool. `id` scopes everything that the caller can see; it is not a secret."""

    id: str
    reach: Literal["own", "account"] = Field(
        default="account",
        description="Reach within its Apify account: the runs and storages of its own calls, or all.",
    )
    apify_token: SealedSecret | None = Field(
        default=None, description="The caller's own Apify token; without one, the operator's token pays."
    )
    payment: CallPayment | None = Field(
        default=None, description="Payment that came with the call and pays for all its requests."
    )
    server_secrets: dict[str, SealedSecret] = Field(
        default_factory=dict, description="The caller's values for `${caller:NAME}` in the file of MCP servers."
    )

    @property
    def with_account(self) -> "Caller":
        """The same caller beyond the call: the account acts for it, no payment."""
        return self if self.payment is None else self.model_copy(update={"payment": None})


class ErrorCategory(StrEnum):
    """The category of a tool error. The values are part of the public contract."""

    NETWORK = "network"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    CAPACITY = "capacity"
    PERMISSION = "permission"
    AUTHENTICATION = "authentication"
    PAYMENT = "payment"
    VALIDATION = "validation"
    NOT_FOUND = "not_found"
    FILESYSTEM = "filesystem"
    CONFLICT = "conflict"
    PLATFORM = "platform"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNKNOWN = "unknown"


_DICTIONARY: Final = re.compile(r"a valid dictionary(?: or instance of \w+)?")
"""What pydantic calls an object of JSON."""


class Violation(Contract):
    """A place where arguments do not match a schema."""

    path: ValidText = Field(
        description="JSON Pointer (RFC 6901) to the offending value; empty for the arguments themselves."
    )
    message: ValidText

    @classmethod
    def at(cls, parts: Iterable[str | int], message: str) -> "Violation":
        """Return the violation at the value that `parts` lead to: names and indices, the outermost first."""
        escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return cls(path="".join(f"/{part}" for part in escaped), message=_DICTIONARY.sub("an object", message))


class ErrorEnvelope(Contract):
    """A tool error, in REST, in events and in answers to a model."""

    tool: ValidText = Field(description="Name of the tool; empty if unknown.")
    message: ValidText = Field(description="What failed, in at most 2,000 characters and without secrets.")
    category: Annotated[ErrorCategory, OPEN] = Field(description="Kind of failure.")
    retryable: bool = Field(description="Whether the same call may succeed later.")
    attempt: int = Field(default=1, description="Number of the failed attempt, counted from 1.")
    hint: ValidText | None = Field(default=None, description="What to do about it.")
    allowed_tools: tuple[str, ...] | None = Field(
        default=None, description="For an unknown tool: the names of all tools that can be called instead."
    )
    violations: tuple[Violation, ...] | None = Field(
        default=None, description="For arguments that do not match the tool's schema: all violations."
    )

    @classmethod
    def permanent(
        cls,
        category: ErrorCategory,
        tool: str,
        message: str,
        *,
        hint: str | None = None,
        violations: tuple[Violation, ...] | None = None,
        allowed_tools: tuple[str, ...] | None = None,
    ) -> "ErrorEnvelope":
        """Return an error that the same call would have again."""
        return cls(
            tool=tool,
            message=message,
            category=category,
            retryable=False,
            hint=hint,
            violations=violations,
            allowed_tools=allowed_tools,
        )

    @classmethod
    def transient(cls, category: ErrorCategory, tool: str, message: str, *, hint: str | None = None) -> "ErrorEnvelope":
        """Return an error that may be gone when the same call is repeated."""
        return cls(tool=tool, message=message, category=category, retryable=True, hint=hint)
