"""Keys of Temporal's large payloads in the store: `payloads/<namespace>/<workflow id>/<sha256>`."""

import re
from dataclasses import dataclass

from outlast.fingerprints import as_folder

PAYLOADS = "payloads"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredPayload:
    """The parts of a payload's key."""

    namespace: str
    workflow_id: str
    digest: str


def payload_key(payload: StoredPayload) -> str:
    """The key of the payload."""
    return f"{payloads_prefix(payload.namespace, payload.workflow_id)}/{payload.digest}"


def payloads_prefix(namespace: str, workflow_id: str | None = None) -> str:
    """The prefix of the payloads of a namespace, or of one of its workflows."""
    parts = (PAYLOADS, as_folder(namespace)) + ((as_folder(workflow_id),) if workflow_id is not None else ())
    return "/".join(parts)


def parse_payload_key(key: str) -> StoredPayload | None:
    """The parts of a payload's key; None for any other key."""
    match key.split("/"):
        case [prefix, namespace, workflow_id, digest] if prefix == PAYLOADS and _DIGEST.fullmatch(digest):
            return StoredPayload(_from_folder(namespace), _from_folder(workflow_id), digest)
        case _:
            return None


def _from_folder(folder: str) -> str:
    return re.sub(
        r"(?:=[0-9A-F]{2})+", lambda found: bytes.fromhex(found[0].replace("=", "")).decode(errors="replace"), folder
    )
