"""The search for secrets that a test has planted."""

import base64

from temporalio.client import Client


async def histories(client: Client) -> dict[str, bytes]:
    """Every history of the namespace, as raw bytes, as JSON, and with all that a description of it shows."""
    found: dict[str, bytes] = {}
    async for execution in client.list_workflows():
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        raw = b"".join(event.SerializeToString() for event in history.events)
        described = (await handle.describe()).raw_description.SerializeToString()
        found[f"history of {execution.id}"] = raw + history.to_json().encode() + described
    return found


def in_any_spelling(secret: str) -> list[bytes]:
    """The bytes that show a secret without characters that any format escapes."""
    plain = secret.encode()
    # Base64 of a text inside a longer one: the same but for its edges, at one of three offsets.
    shifted = [base64.b64encode(b"x" * offset + plain)[4:-4] for offset in range(3)]
    return [plain, plain.hex().encode(), *shifted]
