"""A retry is carried out as the turn that it repeats: with its model, mask and options, unless told otherwise."""

from collections.abc import Mapping

from pydantic import JsonValue

from outlast.api.sessions.model_options import ModelOptions
from outlast.contracts.sessions import MessageRequest
from outlast.workflows.contracts.turns import SessionProfile

_OF_ONE_MESSAGE = {"message", "message_id", "retry_of_assistant_message_id", "stream"}


def asked_options(request: MessageRequest, profile: SessionProfile, options: ModelOptions) -> dict[str, JsonValue]:
    """The options of a turn, for a later retry: what its message says, and what it has from its session.

    They keep the names of `MessageRequest`.
    """
    requested = request.model_dump(
        mode="json", by_alias=True, exclude=_OF_ONE_MESSAGE, exclude_unset=True, exclude_none=True
    )
    mask = request.tool_mask or profile.tool_mask
    return {
        **requested,
        "providerId": options.provider_id,
        "modelId": options.model_id,
        "maxSteps": request.max_steps or profile.max_steps,
        **({"toolMask": dict[str, JsonValue](mask)} if mask else {}),
    }


def as_before(request: MessageRequest, asked: Mapping[str, JsonValue]) -> MessageRequest:
    """`request` with the `asked` options of the turn that it retries, where it does not set its own.

    With another provider, the model is the session's. An option that is set to null is the session's too.
    """
    before = MessageRequest.model_validate(dict(asked))
    kept = before.model_fields_set - request.model_fields_set
    if request.provider_id not in (None, before.provider_id):
        kept -= {"model_id"}
    changes: dict[str, object] = {name: getattr(before, name) for name in kept}
    if "controls" in request.model_fields_set:
        changes["controls"] = request.controls.over(before.controls)
    return request.model_copy(update=changes)
