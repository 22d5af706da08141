"""Hides secrets in payloads and headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HIDDEN = "[hidden]"
VALUE = (
    r"(?:(?:basic|bearer|digest|negotiate|token)\s+)?"
    r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&}]+)"""
    r"(?:;\s*[\w.-]{1,100}=[^\s;,'\"]*)*"
)
"""What a key of a text may have: a string in quotes, or a word, maybe after the scheme of an authorization,
and with more cookies.
"""
SEPARATORS = re.compile(r"[-_. ]")
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
    """Hides every value whose key contains one of the words, in whatever case, and with or without `-`, `_`,
    dots and spaces between their parts. It looks into texts, too: they may be JSON, or have such keys.

    >>> Redaction().hide({"user": "ann", "API-Key": "x", "cards": [{"token": 7}], "text": "token=7"})
    {'user': 'ann', 'API-Key': '[hidden]', 'cards': [{'token': '[hidden]'}], 'text': 'token=[hidden]'}
    """

    words: tuple[str, ...] = SECRET_WORDS

    @classmethod
    def of(cls, words: Iterable[str]) -> Redaction:
        return cls(tuple(word.lower().replace("-", "_") for word in words))

    def hide(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: HIDDEN if self.has_word(str(key)) else self.hide(part) for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.hide(part) for part in value]
        if isinstance(value, str) and self.has_word(value):
            return self.hide_text(value)
        return value

    def hide_text(self, text: str) -> str:
        """JSON, or text without a structure: hide what follows such a word and a colon or an equals sign.

        >>> Redaction().hide_text("user=ann&api-key=x&n=1; Cookie: abc")
        'user=ann&api-key=[hidden]&n=1; Cookie: [hidden]'
        """
        if not self.words:
            return text
        try:
            value = json.loads(text)
            if isinstance(value, dict | list | str):
                return json.dumps(self.hide(value), ensure_ascii=False)
        except ValueError:
            pass
        except RecursionError:
            return HIDDEN
        return re.sub(
            rf"(?i)({self._pattern()}[\w.-]{{0,100}}[\"']?\s{{0,100}}[:=]\s*){VALUE}", rf"\g<1>{HIDDEN}", text
        )

    def has_word(self, text: str) -> bool:
        """Whether one of the words is in it, as part of a key or of anything else."""
        plain = SEPARATORS.sub("", text.lower())
        return any(SEPARATORS.sub("", word) in plain for word in self.words)

    def _pattern(self) -> str:
        parts = (map(re.escape, filter(None, SEPARATORS.split(word))) for word in self.words)
        return f"(?:{'|'.join('[-_. ]?'.join(part) for part in parts)})"
