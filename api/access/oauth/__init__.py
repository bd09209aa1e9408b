"""Access tokens of an OAuth authorization server: this API is a resource server (OAuth 2.1, RFC 9728, RFC 9068)."""
