"""Optional parts of the installation: which packages each has, and the command that adds one.

`pip install outlast` has the Python client and the command line against a server. pyproject.toml lists the extras.
"""

from importlib.util import find_spec

PACKAGES = {
    "server": frozenset(
        {
            "apify_client",
            "anyio",
            "bs4",
            "cachetools",
            "cryptography",
            "docstring_parser",
            "fastapi",
            "fastapi_swagger",
            "filetype",
            "google",
            "h11",
            "httpcore2",
            "httpx2",
            "impit",
            "jinja2",
            "jmespath",
            "jsonschema",
            "jsonschema_rs",
            "jwt",
            "lxml",
            "markdownify",
            "mcp",
            "mcp_types",
            "obstore",
            "opentelemetry",
            "prometheus_client",
            "pydantic_settings",
            "re2",
            "standardwebhooks",
            "starlette",
            "structlog",
            "temporalio",
            "uvicorn",
            "watchfiles",
            "yaml",
            "zstandard",
        }
    ),
    "models": frozenset({"anthropic", "openai"}),
    "programs": frozenset({"pydantic_monty"}),
    "embedded": frozenset({"apify", "brotli", "crawlee", "cronsim", "markdown_it"}),
}
"""The packages that each extra adds, by the name under which they are imported."""


def extra_of(error: ImportError) -> str | None:
    """The extra that has the missing package, or None if no extra has it."""
    package = (error.name or "").partition(".")[0]
    return next((extra for extra, packages in PACKAGES.items() if package in packages), None)


def command_that_adds(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'outlast[{extra}]'"


def require(extra: str) -> None:
    """End the process with the command that adds `extra`, unless its packages are installed."""
    missing = sorted(package for package in PACKAGES[extra] if find_spec(package) is None)
    if missing:
        names = ", ".join(missing)
        raise SystemExit(f"{names}: not installed. Add the {extra} part of Outlast with: {command_that_adds(extra)}")
