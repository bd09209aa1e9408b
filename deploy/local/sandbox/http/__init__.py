"""The HTTP application: routes by resource, query parameters, the documentation site."""
