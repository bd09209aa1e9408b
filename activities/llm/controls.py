"""The controls of a model's answer that a caller may set, and those that a request hook may change. Pure."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import AtMost
from outlast.activities.contracts import Contract

ControlName = Literal["temperature", "effort", "thinking_tokens", "output_schema", "stop", "seed"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ModelControls(Contract):
    """Controls of a model call. One that is not set is left to the provider's default.

    No provider has all of them (`capabilities.MATRIX` says which); one that a provider does not have is refused.
    """

    temperature: float | None = Field(default=None, ge=0, le=2, description="Randomness; 0 is the least.")
    effort: Effort | None = Field(default=None, description="How much the model reasons before it answers.")
    thinking_tokens: int | None = Field(
        default=None, ge=1_024, le=200_000, description="Tokens that the model may think with; part of its output."
    )
    output_schema: dict[str, JsonValue] | None = Field(
        default=None, description="JSON Schema of an object that the model's final text must be."
    )
    stop: tuple[str, ...] = Field(default=(), description="Texts at which the model stops; they are not part of it.")
    seed: Annotated[int, AtMost(2**63 - 1)] | None = Field(
        default=None, description="Equal seeds give equal answers, as far as the provider can."
    )

    @property
    def names(self) -> tuple[ControlName, ...]:
        """The controls that are set."""
        given: dict[ControlName, object] = {
            "temperature": self.temperature,
            "effort": self.effort,
            "thinking_tokens": self.thinking_tokens,
            "output_schema": self.output_schema,
            "stop": self.stop or None,
            "seed": self.seed,
        }
        return tuple(name for name, value in given.items() if value is not None)

    def over(self, base: "ModelControls") -> "ModelControls":
        """These controls; where one is not set, that of `base`."""
        return base.model_copy(update={name: getattr(self, name) for name in self.names})


class ChatParams(Contract):
    """What a request hook (`CHAT_PARAMS_HOOKS` of a tools module) gets before each call of a model, and returns.

    It may change `controls`, `max_output_tokens` and `extra`. The other fields say which call it is; changes of them
    have no effect, so that a hook cannot change what the model reads.
    """

    caller_id: str
    session_id: str
    turn_id: str
    step: int = Field(description="Number of the call in its turn; the first is 1.")
    provider_id: str
    model_id: str
    controls: ModelControls = ModelControls()
    max_output_tokens: int = Field(ge=1)
    extra: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Further fields of the provider's request, such as `service_tier`. None that Outlast sets itself.",
    )


ChatParamsHook = Callable[[ChatParams], ChatParams]
