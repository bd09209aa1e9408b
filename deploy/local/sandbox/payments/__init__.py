"""Payments that come with requests: x402 and Skyfire."""
