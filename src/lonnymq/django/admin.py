"""The pages of Django's admin: tasks by status, one task, and what can be done about it.

They read with the functions of the queue, so there is no second table of tasks to be kept up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from lonnymq.client.calls import ask
from lonnymq.commands import Result
from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.call_status import CallStatus
from lonnymq.django.models import QueuedTask
from lonnymq.django.schemas import backends
from lonnymq.django.task_framework import TaskResultStatus
from lonnymq.django.task_lists import page_of
from lonnymq.django.task_results import of_message, of_status
from lonnymq.errors import InvalidArgument

PAGE_SIZE = 50
BACKEND = "backend"


@admin.register(QueuedTask)
class QueuedTaskAdmin(admin.ModelAdmin):
    """Needs the permission to view tasks; to cancel and to retry them, the permission to change them."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="lonnymq_queuedtask_changelist"),
            path("<int:task_id>/", view(self.task_view), name="lonnymq_queuedtask_change"),
            path("<int:task_id>/cancel/", view(self.cancel_view), name="lonnymq_queuedtask_cancel"),
            path("<int:task_id>/retry/", view(self.retry_view), name="lonnymq_queuedtask_retry"),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:  # noqa: ARG002
        backend, known = self._backend(request)
        status = request.GET.get("status", TaskResultStatus.READY.value)
        if status not in TaskResultStatus.values:
            raise Http404
        try:
            page = page_of(backend, status, request.GET.get("after"), PAGE_SIZE)
        except (InvalidArgument, ValueError):  # of a page that the request made up
            raise Http404 from None
        context = {
            "title": "Tasks",
            "page": page,
            "status": status,
            "statuses": TaskResultStatus.choices,
            "backend": backend.alias,
            "backends": known,
        }
        return self._response(request, "task_list", context)

    def task_view(self, request: HttpRequest, task_id: int) -> HttpResponse:
        backend, _ = self._backend(request)
        message, status = backend.queue.perform(ask(CallStatus(task_id)))
        result = of_status(status, backend.alias, "0") if message is None else of_message(message)
        if result is None:
            raise Http404(f"there is no task {task_id}, or its result is not kept any more")
        context = {
            "title": f"Task {task_id}",
            "subtitle": result.task.module_path,
            "task_id": task_id,
            "result": result,
            "message": message,
            "backend": backend.alias,
            "may_change": self.has_change_permission(request),
            "may_cancel": result.status in {TaskResultStatus.READY, TaskResultStatus.RUNNING},
            "may_retry": message is not None and result.status == TaskResultStatus.FAILED,
        }
        return self._response(request, "task", context)

    @method_decorator(require_POST)
    def cancel_view(self, request: HttpRequest, task_id: int) -> HttpResponse:
        return self._act(request, task_id, "cancelled", lambda backend: backend.queue.cancel(task_id))

    @method_decorator(require_POST)
    def retry_view(self, request: HttpRequest, task_id: int) -> HttpResponse:
        return self._act(
            request,
            task_id,
            "put back into the queue",
            lambda backend: backend.queue.dead.retry([task_id])[0].result,
        )

    def _act(
        self, request: HttpRequest, task_id: int, done: str, act: Callable[[LonnyMQBackend], Result]
    ) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        backend, _ = self._backend(request)
        result = act(backend)
        if result in {Result.CANCELLED, Result.MARKED, Result.RETRIED}:
            self.log_change(request, QueuedTask(pk=task_id), f"{done} ({result})")
            messages.success(request, f"Task {task_id} was {done}.")
        else:
            messages.warning(request, f"Task {task_id} was not {done}: {result.replace('_', ' ')}.")
        url = reverse(f"{self.admin_site.name}:lonnymq_queuedtask_changelist")
        return HttpResponseRedirect(f"{url}?{BACKEND}={backend.alias}")

    def _backend(self, request: HttpRequest) -> tuple[LonnyMQBackend, list[str]]:
        """The backend that the request names, else the first one; and the names of all."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        known = {backend.alias: backend for backend in backends()}
        alias = request.GET.get(BACKEND) or next(iter(known), None)
        if alias not in known:
            raise Http404("TASKS has no such backend of LonnyMQ")
        return known[alias], list(known)

    def _response(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name
        own = {**self.admin_site.each_context(request), "opts": QueuedTask._meta, **context}  # noqa: SLF001
        return TemplateResponse(request, f"admin/lonnymq/{template}.html", own)
