"""Facts about providers and models: controls, windows, output limits, prices. Data, by the start of the name. Sources:
the model pages of OpenAI, Anthropic and Z.ai, November 2026. An operator adds or corrects limits with
OUTLAST_MODEL_LIMITS, and names models there that are not known here: those have careful defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.bounds import MAX_USD
from outlast.activities.llm.contracts import ControlName, Effort, ModelControls, Usage

UNKNOWN_OUTPUT_TOKENS = 4_096
"""Default output limit of a model of which nothing is known: small enough for servers with a small window."""
MOST_DEFAULT_OUTPUT_TOKENS = 32_000
"""The default is the model's own limit, but not more than this: a runaway answer costs money."""


class ModelLimits(BaseModel):
    """An operator's numbers for one model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: int | None = Field(default=None, ge=1_024, description="Tokens of prompt and answer together.")
    output: int | None = Field(default=None, ge=1, description="Tokens of one answer at most.")
    pictures: bool | None = Field(default=None, description="Whether it sees pictures.")


@dataclass(frozen=True)
class Model:
    """A model, as far as it is known."""

    window_tokens: int | None = None
    """Tokens of prompt and answer together."""
    output_tokens: int | None = None
    """Tokens of one answer at most, its reasoning included."""
    reasons: bool | None = None
    """The model always reasons; None if not known."""
    lacks: tuple[ControlName, ...] = ()
    """Controls of its provider that this model does not have."""
    sees_pictures: bool | None = None
    """The model accepts pictures; None if not known."""

    @property
    def default_output_tokens(self) -> int:
        """The output limit of a call that does not set one."""
        if self.output_tokens is None:
            return UNKNOWN_OUTPUT_TOKENS
        return min(self.output_tokens, MOST_DEFAULT_OUTPUT_TOKENS)


_BY_BUDGET: tuple[ControlName, ...] = ("effort",)
_ADAPTIVE: tuple[ControlName, ...] = ("thinking_tokens",)
_PLAIN: tuple[ControlName, ...] = ("effort",)

KNOWN: Mapping[str, Mapping[str, Model]] = {
    "openai": {
        "gpt-6": Model(1_050_000, 128_000, reasons=True, sees_pictures=True),
        "gpt-5.6": Model(1_050_000, 128_000, reasons=True, sees_pictures=True),
        "gpt-5": Model(400_000, 128_000, reasons=True, sees_pictures=True),
        "gpt-5-chat": Model(128_000, 16_384, reasons=False, lacks=_PLAIN, sees_pictures=True),
        "gpt-4.1": Model(1_047_576, 32_768, reasons=False, lacks=_PLAIN, sees_pictures=True),
        "gpt-4o": Model(128_000, 16_384, reasons=False, lacks=_PLAIN, sees_pictures=True),
        "gpt-4-turbo": Model(128_000, 4_096, reasons=False, lacks=_PLAIN, sees_pictures=True),
        "o1": Model(200_000, 100_000, reasons=True, sees_pictures=True),
        "o3": Model(200_000, 100_000, reasons=True, sees_pictures=True),
        "o3-mini": Model(200_000, 100_000, reasons=True, sees_pictures=False),
        "o4": Model(200_000, 100_000, reasons=True, sees_pictures=True),
    },
    "anthropic": {
        "claude-": Model(1_000_000, 128_000, lacks=_ADAPTIVE, sees_pictures=True),
        "claude-opus-4-6": Model(1_000_000, 128_000, sees_pictures=True),
        "claude-sonnet-4-6": Model(1_000_000, 64_000, sees_pictures=True),
        "claude-opus-4-5": Model(200_000, 64_000, sees_pictures=True),
        "claude-sonnet-4-5": Model(200_000, 64_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-haiku-4-5": Model(200_000, 64_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-opus-4-1": Model(200_000, 32_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-opus-4-0": Model(200_000, 32_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-sonnet-4-0": Model(200_000, 64_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-opus-4-2": Model(200_000, 32_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-sonnet-4-2": Model(200_000, 64_000, lacks=_BY_BUDGET, sees_pictures=True),
        "claude-3": Model(200_000, 4_096, lacks=("effort", "thinking_tokens"), sees_pictures=True),
        "claude-3-5": Model(200_000, 8_192, lacks=("effort", "thinking_tokens"), sees_pictures=True),
        "claude-3-7": Model(200_000, 64_000, lacks=_BY_BUDGET, sees_pictures=True),
    },
    "zai": {
        "glm-5": Model(200_000, 128_000, sees_pictures=False),
        "glm-5.3": Model(1_048_576, 131_072, sees_pictures=False),
        "glm-4.7": Model(200_000, 128_000, sees_pictures=False),
        "glm-4.6": Model(200_000, 128_000, sees_pictures=False),
        "glm-4.5": Model(128_000, 96_000, sees_pictures=False),
        "glm-5v": Model(200_000, 128_000, sees_pictures=True),
        "glm-4.6v": Model(131_072, 32_768, sees_pictures=True),
        "glm-4.5v": Model(65_536, 16_384, sees_pictures=True),
    },
}
"""By provider, then by the start of the model's name. The longest start that fits counts. A provider without a table
has whatever models its server has.
"""
_OPEN_MODELS: Mapping[str, Model] = {
    **dict.fromkeys(
        (
            "gemma-3",
            "gemma3",
            "glm-4.5v",
            "glm-4.6v",
            "internvl",
            "llama-4",
            "llama4",
            "llama-3.2-11b-vision",
            "llama-3.2-90b-vision",
            "llama3.2-vision",
            "llava",
            "minicpm-v",
            "pixtral",
            "qwen2-vl",
            "qwen2.5-vl",
            "qwen2.5vl",
            "qwen3-vl",
        ),
        Model(sees_pictures=True),
    ),
    "gemma-3-1b": Model(sees_pictures=False),
    "gemma3:1b": Model(sees_pictures=False),
}
"""Families that people serve themselves, as Hugging Face and Ollama name them: in lower case, without a path."""

ANY = "*"
"""At the end of a name in OUTLAST_MODEL_LIMITS: all models whose names begin so."""


def model_of(provider_id: str, model_id: str, limits: Mapping[str, ModelLimits] | None = None) -> Model:
    """Facts about the model; `limits` are the operator's, by `provider/model` or `provider/start*`."""
    model = _known(provider_id, model_id) or Model()
    own = _own_limits(provider_id, model_id, limits or {})
    if own is None:
        return model
    return replace(
        model,
        window_tokens=own.window or model.window_tokens,
        output_tokens=own.output or model.output_tokens,
        sees_pictures=model.sees_pictures if own.pictures is None else own.pictures,
    )


def is_known(provider_id: str, model_id: str, limits: Mapping[str, ModelLimits]) -> bool:
    """Return True if the provider may have this model: it has no table, or the table or `limits` name the model."""
    if provider_id not in KNOWN:
        return True
    return _known(provider_id, model_id) is not None or _own_limits(provider_id, model_id, limits) is not None


def _known(provider_id: str, model_id: str) -> Model | None:
    table, name = KNOWN.get(provider_id), model_id
    if table is None:
        table, name = _OPEN_MODELS, model_id.rpartition("/")[2].lower()
    best = max((start for start in table if name.startswith(start)), key=len, default=None)
    return None if best is None else table[best]


def _own_limits(provider_id: str, model_id: str, limits: Mapping[str, ModelLimits]) -> ModelLimits | None:
    """Return the operator's entry for the model: that of its whole name, else that of the longest start."""
    name = f"{provider_id}/{model_id}"
    if name in limits:
        return limits[name]
    starts = (key for key in limits if key.endswith(ANY) and name.startswith(key.removesuffix(ANY)))
    best = max(starts, key=len, default=None)
    return None if best is None else limits[best]


_MILLION = 1_000_000
_PerMillion = Annotated[float, Field(ge=0, le=int(MAX_USD), allow_inf_nan=False)]
"""0 is the price of a model that costs nothing."""


class Price(BaseModel):
    """US dollars per million tokens. Without separate prices, cache reads and writes cost as much as input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: _PerMillion
    output: _PerMillion
    cache_read: _PerMillion | None = None
    cache_write: _PerMillion | None = None


def cost_usd(prices: Mapping[str, Price], provider_id: str, model_id: str, usage: Usage) -> float | None:
    """Return the cost of a call at the price of `provider/model`; None without a price."""
    price = prices.get(f"{provider_id}/{model_id}")
    if price is None:
        return None
    read_price = price.input if price.cache_read is None else price.cache_read
    write_price = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    spent = (
        fresh * price.input
        + usage.cache_read_tokens * read_price
        + usage.cache_write_tokens * write_price
        + usage.output_tokens * price.output
    )
    return spent / _MILLION


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a provider. The defaults are those of OpenAI's Chat Completions. Tool definitions are
    constant for every provider, whatever the mask.
    """

    protocol: Literal["responses", "chat", "messages"] = "chat"
    base_url: str | None = None
    """The default base URL; None if it has to be configured."""
    limits_active_tools: bool = False
    """A request can limit the tools that may be called. Otherwise the caller refuses calls of other tools."""
    forbids_all_tools: bool = True
    """A request can forbid all tool calls. Otherwise the caller refuses the calls."""
    caching: Literal["automatic", "breakpoints"] = "automatic"
    streams_usage: Literal["always", "on_request"] = "always"
    """`on_request`: a streaming request has to ask for the usage."""
    system: Literal["instructions", "system_blocks", "system_message"] = "system_message"
    """The place of the static text: always after the definitions, before the dynamic text and the conversation."""
    controls: tuple[ControlName, ...] = ("temperature", "effort", "output_schema", "stop", "seed")
    """The controls that a request can set; another one is refused by its name."""
    efforts: tuple[Effort, ...] = get_args(Effort)
    most_stops: int = 4
    """The maximum number of stop texts in a request."""
    keeps_reasoning: bool = True
    """The model's reasoning is sent back to it in later steps."""
    sees_pictures: bool = False
    """Models get the pictures of tools, unless `Model.sees_pictures` is known."""


_WITHOUT_MINIMAL: tuple[Effort, ...] = ("none", "low", "medium", "high", "xhigh", "max")

MATRIX: Mapping[str, Capabilities] = MappingProxyType(
    {
        "openai": Capabilities(
            protocol="responses",
            base_url="https://api.openai.com/v1",
            limits_active_tools=True,
            system="instructions",
            controls=("temperature", "effort", "output_schema"),
            most_stops=0,
            sees_pictures=True,
        ),
        "anthropic": Capabilities(
            protocol="messages",
            base_url="https://api.anthropic.com",
            caching="breakpoints",
            system="system_blocks",
            # API version 2026-10-21, which the client library sends, has no `temperature`.
            controls=("effort", "thinking_tokens", "output_schema", "stop"),
            efforts=_WITHOUT_MINIMAL,
            sees_pictures=True,
        ),
        "zai": Capabilities(
            base_url="https://api.z.ai/api/paas/v4",
            # Its `tool_choice` accepts `auto` only.
            forbids_all_tools=False,
            # Its `response_format` accepts no schema.
            controls=("temperature", "effort", "stop"),
            efforts=_WITHOUT_MINIMAL,
            most_stops=1,
        ),
        "generic": Capabilities(streams_usage="on_request", keeps_reasoning=False),
    }
)
"""The providers by `provider_id`. `generic` is any server that speaks OpenAI's Chat Completions."""


def refused_controls(provider_id: str, model_id: str, model: Model, controls: ModelControls) -> str | None:
    """Return the reason why these controls cannot be sent; None if they can, or the provider is unknown."""
    can = MATRIX.get(provider_id)
    if can is None:
        return None
    for name in controls.names:
        if name not in can.controls:
            return f"The provider {provider_id} does not support `{name}`. It supports {_listed(can.controls)}."
        if name in model.lacks:
            others = tuple(other for other in can.controls if other not in model.lacks)
            return f"The model {model_id} does not support `{name}`. It supports {_listed(others)}."
    return _refused_value(provider_id, can, controls)


def refused_output_limit(model_id: str, model: Model, controls: ModelControls, max_output_tokens: int) -> str | None:
    """Return the reason why the output limit does not fit the model or its thinking; None if it fits."""
    if model.output_tokens is not None and max_output_tokens > model.output_tokens:
        return f"The model {model_id} writes at most {model.output_tokens} tokens; {max_output_tokens} were requested."
    if controls.thinking_tokens is not None and controls.thinking_tokens >= max_output_tokens:
        return (
            f"`thinking_tokens` ({controls.thinking_tokens}) must be less than the output limit "
            f"({max_output_tokens}), which includes them."
        )
    return None


def _refused_value(provider_id: str, can: Capabilities, controls: ModelControls) -> str | None:
    if controls.effort is not None and controls.effort not in can.efforts:
        efforts = ", ".join(can.efforts)
        return f"The provider {provider_id} does not support `effort` {controls.effort!r}. It supports {efforts}."
    if len(controls.stop) > can.most_stops:
        return (
            f"The provider {provider_id} accepts at most {can.most_stops} `stop` texts; {len(controls.stop)} are set."
        )
    return None


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
