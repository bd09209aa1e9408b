"""`/docs`: Swagger UI, served with its assets from this process, so that it works without internet.

The assets are those of the package `fastapi-swagger`, which follows Swagger UI's releases. The Content Security Policy
allows no other origin, and the page's script is a separate file, so that inline scripts need not be allowed. URLs are
relative, so the page also works behind a proxy that serves the API under a path.
"""

from importlib.resources import files

from fastapi import FastAPI

from outlast.api.http.documents import Document, route_of

_ASSETS = files("fastapi_swagger") / "resources"
_SCRIPT = "text/javascript; charset=utf-8"
_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Outlast API</title>
  <link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="docs/swagger-ui-bundle.js"></script>
  <script src="docs/start.js"></script>
</body>
</html>
"""
_START = """
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
"""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def install_docs(app: FastAPI) -> None:
    """Serve `/docs` and its assets. Build `app` with `docs_url=None` and `redoc_url=None`: theirs come from a CDN."""
    documents = {
        "/docs": Document(_PAGE.encode(), "text/html; charset=utf-8", _HEADERS),
        "/docs/swagger-ui-bundle.js": Document(_asset("swagger-ui-bundle.js"), _SCRIPT, _HEADERS),
        "/docs/swagger-ui.css": Document(_asset("swagger-ui.css"), "text/css; charset=utf-8", _HEADERS),
        "/docs/start.js": Document(_START.encode(), _SCRIPT, _HEADERS),
    }
    app.router.routes.extend(route_of(path, document) for path, document in documents.items())


def _asset(name: str) -> bytes:
    return (_ASSETS / name).read_bytes()
