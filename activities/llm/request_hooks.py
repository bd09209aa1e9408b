"""Request hooks: functions of the user's modules that see and change the parameters of each model call."""

from collections.abc import Mapping, Sequence

from outlast.activities.failures.provider_error import REFUSED_HERE, ProviderError
from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.llm.controls import ChatParams, ChatParamsHook
from outlast.activities.llm.providers.models import ModelLimits, model_of
from outlast.activities.llm.providers.unsupported_controls import refused_controls, refused_output_limit

CHAT_PARAMS_HOOKS = "CHAT_PARAMS_HOOKS"
"""Attribute of a tools module (OUTLAST_TOOLS_FROM): functions from `ChatParams` to `ChatParams`."""


def checked_request(
    request: CallModelInput, hooks: Sequence[ChatParamsHook], limits: Mapping[str, ModelLimits]
) -> CallModelInput:
    """The request after all hooks, in their order; `limits` are the operator's, by `provider/model`.

    Raises `ProviderError` when a hook fails, when the provider or the model has no such control, and when the output
    limit is more than the model can write.
    """
    if hooks:
        params = _params(request)
        for hook in hooks:
            params = _applied(hook, params, request.provider_id)
        request = request.model_copy(
            update={
                "controls": params.controls,
                "max_output_tokens": params.max_output_tokens,
                "extra": params.extra,
            }
        )
    model = model_of(request.provider_id, request.model_id, limits)
    refusal = refused_controls(request.provider_id, request.model_id, model, request.controls) or refused_output_limit(
        request.model_id, model, request.controls, request.max_output_tokens
    )
    if refusal is not None:
        raise ProviderError(request.provider_id, refusal, kinds=(REFUSED_HERE,))
    return request


def _params(request: CallModelInput) -> ChatParams:
    return ChatParams(
        caller_id=request.caller.id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        step=request.step,
        provider_id=request.provider_id,
        model_id=request.model_id,
        controls=request.controls,
        max_output_tokens=request.max_output_tokens,
    )


def _applied(hook: ChatParamsHook, params: ChatParams, provider_id: str) -> ChatParams:
    try:
        # Validated again: a hook may have changed its copy without validation.
        return ChatParams.model_validate(hook(params).model_dump())
    except Exception as error:
        name = getattr(hook, "__qualname__", repr(hook))
        raise ProviderError(
            provider_id,
            f"The hook {name} of {CHAT_PARAMS_HOOKS} failed: {type(error).__name__}: {error}",
            kinds=(REFUSED_HERE,),
        ) from error
