"""The work that is done in the background: lonnymq worker saas.tasks:app"""

from lonnymq import App, Backoff, Job, Queue
from saas.database import Document, engine, new_session

queue = Queue(engine)
app = App(queue)


@app.task(max_attempts=3, backoff=Backoff(first=1, longest=60))
def count_words(document_id: int) -> None:
    with new_session.begin() as session:
        document = session.get_one(Document, document_id)
        if not document.text.isprintable():
            raise ValueError(f"document {document_id} is not text")
        document.words = len(document.text.split())
        Job.current().complete(conn=session)  # commits with the count: counted exactly once
