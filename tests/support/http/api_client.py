"""HTTP clients of Outlast's API."""

import httpx


def bearer(token: str) -> dict[str, str]:
    """The header that identifies a caller."""
    return {"Authorization": f"Bearer {token}"}


def api_client(url: str, token: str | None = None, *, timeout_seconds: float = 120) -> httpx.AsyncClient:
    """A client of the API at `url`: the caller with this token, or one without any."""
    headers = bearer(token) if token else {}
    return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=timeout_seconds)
