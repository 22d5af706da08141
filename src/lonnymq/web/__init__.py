"""The dashboard: pages for people, a JSON interface for programs, and metrics for Prometheus.

A map of the modules:

- `app`: `create_app`, which puts everything together.
- `access`: who may see and do what. `gate`: refuses requests before anything else reads them.
- `view`: what a request works with: the queue, the numbers, and the rights of the person. Every change goes
  through `View.action`, which checks the right and writes the audit row.
- `live`: the shared poller behind all open pages.
- `api/`: one module per topic. Its functions are the routes of `/api/v1`.
- `pages/`: one module per topic. A page calls the functions of `api` and renders a template.
- `templates/`, `static/`: HTML, CSS and scripts. Nothing is loaded from elsewhere.
"""

from lonnymq.errors import MissingExtra

try:
    import fastapi  # noqa: F401
    import jinja2  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"the dashboard needs {error.name}", "pip install 'lonnymq[web]'") from None

from lonnymq.web.access import Access, Password, Right
from lonnymq.web.app import create_app

__all__ = ["Access", "Password", "Right", "create_app"]
