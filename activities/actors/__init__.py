"""Actors in the Apify Store: search, details, input schemas, and the definitions of their direct tools."""
