"""What the tool `show` answers, also for the tests that compare it with what arrives."""

from typing import Any

EVERYTHING: dict[str, Any] = {
    "content": [
        {"type": "text", "text": 'Grüße   \n{"a": 1}\n\u2028', "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "_meta": {"toolbox/width": 1}},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
        {"type": "resource_link", "uri": "https://example.com/b", "name": "b", "description": "elsewhere"},
    ],
    "structuredContent": {"nested": {"numbers": [1, 2.5, -3e-7], "none": None, "big": 12345678901234567890}},
    "isError": False,
    "_meta": {"toolbox/cost": 0.25, "openai/outputTemplate": "ui://theirs"},
}
