"""The HTTP interface: uvicorn saas.web:api"""

from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel
from sqlalchemy import func, select

from saas import tasks
from saas.database import Document, new_session

DOCUMENTS_MAX = 100

api = FastAPI(title="Word counts")
Tenant = Annotated[str, Header(alias="X-Tenant")]  # a real service takes it from the login


class Upload(BaseModel):
    text: str


class Limit(BaseModel):
    max_concurrency: int


@api.post("/documents", status_code=202)
def upload(body: Upload, tenant: Tenant) -> dict[str, int]:
    """The document and the message about it are one transaction: both exist, or neither does."""
    with new_session.begin() as session:
        document = Document(tenant=tenant, text=body.text)
        session.add(document)
        session.flush()  # now it has an id
        tasks.count_words.using(channel=tenant, conn=session).enqueue(document.id)
        owned = session.scalar(select(func.count()).where(Document.tenant == tenant)) or 0
        if owned > DOCUMENTS_MAX:  # rolls back the document and its message
            raise HTTPException(402, f"{tenant} may have {DOCUMENTS_MAX} documents")
        return {"id": document.id}


@api.get("/documents/{document_id}")
def read(document_id: int, tenant: Tenant) -> dict[str, int | None]:
    with new_session() as session:
        document = session.get(Document, document_id)
        if document is None or document.tenant != tenant:
            raise HTTPException(404, "no such document")
        return {"words": document.words}


@api.get("/backlog")
def backlog(tenant: Tenant) -> dict[str, int]:
    stats = tasks.queue.channel(tenant).stats()
    return {"waiting": stats.waiting, "dead": stats.dead}


@api.put("/tenants/{tenant}/limit")
def limit(tenant: str, body: Limit) -> dict[str, int | None]:
    """For operators: how many documents of one tenant are counted at the same time, over all workers."""
    policy = tasks.queue.channel(tenant).set(max_concurrency=body.max_concurrency)
    return {"max_concurrency": policy.max_concurrency}
