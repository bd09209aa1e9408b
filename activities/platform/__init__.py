"""The client of the Apify platform: it acts for a caller, marks its requests, and keeps callers apart."""
