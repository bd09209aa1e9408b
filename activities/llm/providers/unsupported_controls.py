"""Controls that a provider or a model does not have: refused by name, before anything is sent. Pure."""

from outlast.activities.llm.controls import ModelControls
from outlast.activities.llm.providers.capabilities import MATRIX, Capabilities
from outlast.activities.llm.providers.models import Model


def refused_controls(provider_id: str, model_id: str, model: Model, controls: ModelControls) -> str | None:
    """Why these controls cannot be sent, in one sentence; None when they can, or the provider is not known."""
    can = MATRIX.get(provider_id)
    if can is None:
        return None
    for name in controls.names:
        if name not in can.controls:
            return f"The provider {provider_id} has no `{name}`. It has {_listed(can.controls)}."
        if name in model.lacks:
            others = tuple(other for other in can.controls if other not in model.lacks)
            return f"The model {model_id} has no `{name}`. It has {_listed(others)}."
    return _refused_value(provider_id, can, controls)


def refused_output_limit(model_id: str, model: Model, controls: ModelControls, max_output_tokens: int) -> str | None:
    """Why the output limit does not fit the model or its thinking, in one sentence; None when it fits."""
    if model.output_tokens is not None and max_output_tokens > model.output_tokens:
        return f"The model {model_id} writes {model.output_tokens} tokens at most; {max_output_tokens} were asked for."
    if controls.thinking_tokens is not None and controls.thinking_tokens >= max_output_tokens:
        return (
            f"`thinking_tokens` ({controls.thinking_tokens}) must be less than the output limit "
            f"({max_output_tokens}), which includes them."
        )
    return None


def _refused_value(provider_id: str, can: Capabilities, controls: ModelControls) -> str | None:
    if controls.effort is not None and controls.effort not in can.efforts:
        efforts = ", ".join(can.efforts)
        return f"The provider {provider_id} has no `effort` {controls.effort!r}. It has {efforts}."
    if len(controls.stop) > can.most_stops:
        return f"The provider {provider_id} takes {can.most_stops} `stop` texts at most; {len(controls.stop)} are set."
    return None


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
