"""Small media of many kinds, base64: real ones, and what passes for them."""

import base64


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def png(end: str = "") -> str:
    """A picture of its own for each `end`."""
    return encoded(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0" + end.encode())


PNG = png()
JPEG = encoded(b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9")
GIF = encoded(b"GIF89a\1\0\1\0\0\0\0;")
WEBP = encoded(b"RIFF\x1a\0\0\0WEBPVP8 \x0e\0\0\0")
HEIC = encoded(b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + b"\0" * 40)
BMP = encoded(b"BM" + b"\0" * 52)
SVG = encoded(b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>')
PDF = encoded(b"%PDF-1.4\n%%EOF\n")
LATE_PDF = encoded(b"\n\n%PDF-1.4\n%%EOF\n")
WAV = encoded(b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0")
MP3 = encoded(b"ID3\3\0\0\0\0\0\x21" + b"\0" * 50)
HTML = encoded(b"<!DOCTYPE html><html><body>404 Not Found</body></html>")
EOF_ONLY = encoded(b"\0\1\2\3")
