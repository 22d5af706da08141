from uuid import UUID

from django.db.transaction import atomic as exclusive_transaction

__all__ = ["exclusive_transaction", "normalize_uuid"]


def normalize_uuid(value: str | UUID) -> str:
    return str(UUID(str(value)))
