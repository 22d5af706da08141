"""Creates the tables and the queue; run it at every deployment: python -m saas.install"""

from saas.database import Base, engine
from saas.tasks import queue

if __name__ == "__main__":
    Base.metadata.create_all(engine)
    queue.install()
    engine.dispose()
