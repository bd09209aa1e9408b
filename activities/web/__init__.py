"""Documentation sites and public web pages."""
