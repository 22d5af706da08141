"""Hides secrets in payloads and headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HIDDEN = "[hidden]"
VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&}]+)"""
"""What a key of a text may have: a string in quotes, or a word."""
SECRET_WORDS = (
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "private_key",
)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Hides every value whose key contains one of the words, in whatever case, with `-` for `_`.

    >>> Redaction().hide({"user": "ann", "API-Key": "x", "cards": [{"token": 7}]})
    {'user': 'ann', 'API-Key': '[hidden]', 'cards': [{'token': '[hidden]'}]}
    """

    words: tuple[str, ...] = SECRET_WORDS

    @classmethod
    def of(cls, words: Iterable[str]) -> Redaction:
        return cls(tuple(word.lower().replace("-", "_") for word in words))

    def hide(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: HIDDEN if self._is_secret(key) else self.hide(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide(part) for part in value]
        return value

    def hide_text(self, text: str) -> str:
        """Text without a structure: hide what follows such a word and a colon or an equals sign.

        >>> Redaction().hide_text("user=ann&api-key=x&n=1; Cookie: abc")
        'user=ann&api-key=[hidden]&n=1; Cookie: [hidden]'
        """
        if not self.words:
            return text
        words = "|".join(re.escape(word).replace("_", "[-_]") for word in self.words)
        return re.sub(rf"(?i)((?:{words})[\w-]*[\"']?\s*[:=]\s*){VALUE}", rf"\g<1>{HIDDEN}", text)

    def _is_secret(self, key: object) -> bool:
        name = str(key).lower().replace("-", "_")
        return any(word in name for word in self.words)
