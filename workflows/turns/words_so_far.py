"""The words of a model's answer that was cut off: what its stream has brought so far. Pure."""

import base64

from temporalio.api.common.v1 import Payload
from temporalio.contrib.workflow_streams import WorkflowStreamState
from temporalio.converter import PayloadConverter

from outlast.activities.llm.contracts import TextDelta
from outlast.activities.llm.streaming import DELTAS_TOPIC


def words_so_far(stream: WorkflowStreamState, step: int, converter: PayloadConverter) -> str:
    """The text of the step's latest attempt. A repeated attempt begins again, so older ones do not count."""
    deltas = [
        converter.from_payload(Payload.FromString(base64.b64decode(item.data)), TextDelta)
        for item in stream.log
        if item.topic == DELTAS_TOPIC
    ]
    of_step = [delta for delta in deltas if delta.step == step]
    latest = max((delta.attempt for delta in of_step), default=0)
    return "".join(delta.text for delta in of_step if delta.attempt == latest)
