from typing import Any


class DBTaskResultAdmin:
    """Ours has other pages."""

    def __init__(self, *_: Any) -> None: ...
