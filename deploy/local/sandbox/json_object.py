"""The type of a JSON object whose shape is Apify's."""

from typing import Any

JsonObject = dict[str, Any]
