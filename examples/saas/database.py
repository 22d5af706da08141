"""The tables of the service, and sessions on them."""

import os

from sqlalchemy import Engine, create_engine, make_url
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
