"""The tables of the service, and sessions on them."""

import os
from datetime import date

from sqlalchemy import Engine, create_engine, func, make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker


def make_engine(address: str) -> Engine:
    return create_engine(make_url(address).set(drivername="postgresql+psycopg"))


engine = make_engine(os.environ.get("DATABASE_URL", "postgresql://localhost/saas"))
new_session = sessionmaker(engine, class_=Session)


class Base(DeclarativeBase):
    pass


class Document(Base):
    __tablename__ = "document"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str] = mapped_column(index=True)
    text: Mapped[str]
    words: Mapped[int | None]


class Import(Base):
    """Many documents at once. `reports` counts how often the end of the import was reported."""

    __tablename__ = "import"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    batch_id: Mapped[int | None]
    counted: Mapped[int | None]
    failed: Mapped[int | None]
    reports: Mapped[int] = mapped_column(default=0)


class Charge(Base):
    """Tenants pay for each word. A document that was counted twice would have two rows here."""

    __tablename__ = "charge"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    document_id: Mapped[int]
    words: Mapped[int]
    attempt: Mapped[int]
    day: Mapped[date] = mapped_column(server_default=func.current_date())


class Invoice(Base):
    __tablename__ = "invoice"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    day: Mapped[date]
    words: Mapped[int]
