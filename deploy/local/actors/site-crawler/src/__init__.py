"""The site crawler: real web pages, from their start URLs on, as text and Markdown."""
