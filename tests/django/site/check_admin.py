"""The pages of the admin."""

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import TransactionTestCase
from django.urls import reverse

from lonnymq.django import message_id_of
from lonnymq.testing.django import delete_tasks, run_tasks
from tests.django.site.check_tasks import FAILED, READY, SUCCESSFUL, backend
from tests.django.site.shop import tasks

LIST = reverse("admin:lonnymq_queuedtask_changelist")


class Admin(TransactionTestCase):
    def setUp(self) -> None:
        delete_tasks()
        delete_tasks("second")

    def log_in(self, *permissions: str) -> None:
        user = User.objects.create_user("-".join(permissions) or "nobody", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        self.client.force_login(user)

    def test_tasks_by_status(self) -> None:
        self.log_in("view_queuedtask")
        self.assertContains(self.client.get(LIST, {"status": SUCCESSFUL}), "keeps no history")
        backend().queue.set(history=True)
        done, failed = tasks.add.enqueue(1, 41), tasks.fail.enqueue("stock")
        run_tasks(raise_errors=False)
        waiting = tasks.bill_of.enqueue("<b>", tenant="acme")
        backend().queue.enqueue({"not": "a task"})
        self.assertContains(self.client.get(reverse("admin:index")), LIST)
        for status, result, said in (
            ("READY", waiting, "acme"),
            ("FAILED", failed, "NoStock"),
            ("SUCCESSFUL", done, "tasks.add"),
        ):
            page = self.client.get(LIST, {"status": status})
            self.assertContains(page, said)
            self.assertContains(page, f"/{message_id_of(result.id)}/", count=1)
        self.assertContains(self.client.get(LIST, {"status": "RUNNING"}), "There are no such tasks")
        self.assertContains(self.client.get(LIST, {"backend": "second"}), "There are no such tasks")
        for wrong in (
            {"status": "X"},
            {"backend": "immediate"},
            {"after": "x"},
            {"status": FAILED, "after": "x"},
        ):
            self.assertEqual(self.client.get(LIST, wrong).status_code, 404)
        for result, said in ((waiting, "&lt;b&gt;"), (failed, "sold out"), (done, "<code>42</code>")):
            page = self.client.get(self.page_of(result.id))
            self.assertContains(page, said)
            self.assertNotContains(page, "<form method")  # the user may not change tasks
        self.assertEqual(
            self.client.get(reverse("admin:lonnymq_queuedtask_change", args=[999])).status_code, 404
        )
        backend().queue.set(history=False)

    @staticmethod
    def page_of(result_id: str, action: str = "change") -> str:
        return str(reverse(f"admin:lonnymq_queuedtask_{action}", args=[message_id_of(result_id)]))

    def test_retry_and_cancel(self) -> None:
        failed = tasks.fail.enqueue()
        run_tasks(raise_errors=False)
        waiting = tasks.add.enqueue(1, 2)
        self.log_in("view_queuedtask", "change_queuedtask")
        self.assertContains(self.client.get(self.page_of(failed.id)), "Run it again")
        self.assertContains(self.client.get(self.page_of(waiting.id)), "Cancel this task")
        self.assertEqual(self.client.get(self.page_of(failed.id, "retry")).status_code, 405)
        answer = self.client.post(self.page_of(failed.id, "retry"), follow=True)
        self.assertContains(answer, "was put back into the queue")
        answer = self.client.post(self.page_of(waiting.id, "cancel"), follow=True)
        self.assertContains(answer, "was cancelled")
        answer = self.client.post(self.page_of(waiting.id, "cancel"), follow=True)
        self.assertContains(answer, "was not cancelled: not found")
        failed.refresh()
        waiting.refresh()
        self.assertEqual((failed.status, waiting.status), (READY, FAILED))
        self.assertEqual(LogEntry.objects.count(), 2)

    def test_permissions(self) -> None:
        waiting = tasks.add.enqueue(1, 2)
        self.assertEqual(self.client.get(LIST).status_code, 302)
        self.log_in()
        for url in (LIST, self.page_of(waiting.id)):
            self.assertEqual(self.client.get(url).status_code, 403)
        self.log_in("view_queuedtask")
        for action in ("retry", "cancel"):
            self.assertEqual(self.client.post(self.page_of(waiting.id, action)).status_code, 403)
        waiting.refresh()
        self.assertEqual(waiting.status, READY)
