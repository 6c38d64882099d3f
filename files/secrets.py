"""Passwords in URLs, which nobody else must see."""

from __future__ import annotations

import re

SECRETS = ("password", "sslpassword", "passwd")
"""What the query of a server's URL may say that is secret."""
_USERINFO = re.compile(r"([\w+]+://[^\s:/@]*):[^\s]*@")
_QUERY = re.compile(rf"([?&;]\s*(?:{'|'.join(SECRETS)})=)[^\s&;]*", re.IGNORECASE)


def hidden(text: str) -> str:
    """A text with the passwords of all URLs in it left out."""
    return _QUERY.sub(r"\1***", _USERINFO.sub(r"\1:***@", text)) if "://" in text else text
