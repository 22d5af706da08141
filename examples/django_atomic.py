"""Saves a Django model and enqueues a message about it in one transaction.atomic().

python examples/django_atomic.py postgresql://...
"""

import os
import sys

import django
from django.conf import settings
from django.db import connection, models, transaction
from psycopg.conninfo import conninfo_to_dict

from lonnymq import Queue

CREDIT = 1000


class CreditRefused(Exception):
    pass


def configure(dsn: str) -> None:
    """Stands in for your settings.py."""
    found = conninfo_to_dict(dsn)
    settings.configure(
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": found.get("host", ""),
                "PORT": found.get("port", ""),
                "NAME": found.get("dbname", ""),
                "USER": found.get("user", ""),
                "PASSWORD": found.get("password", ""),
            }
        },
    )
    django.setup()


def bill(invoices: models.Manager, queue: Queue, customer: str, euros: int) -> models.Model:
    with transaction.atomic():
        invoice = invoices.create(customer=customer, euros=euros)
        queue.enqueue({"invoice": invoice.pk}, channel=customer, conn=connection)
        if euros > CREDIT:
            raise CreditRefused(customer)
    return invoice


def main(dsn: str) -> None:
    configure(dsn)

    class Invoice(models.Model):  # type: ignore[misc]
        customer = models.TextField()
        euros = models.IntegerField()

        class Meta:
            app_label = "shop"

        def __str__(self) -> str:
            return f"invoice {self.pk}"

    if Invoice._meta.db_table not in connection.introspection.table_names():  # noqa: SLF001
        with connection.schema_editor() as editor:  # stands in for a migration
            editor.create_model(Invoice)

    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy

        invoice = bill(Invoice.objects, queue, "acme", 250)
        print(f"committed: {invoice}, {queue.channel('acme').stats().waiting} message")

        try:
            bill(Invoice.objects, queue, "bluebird", 5000)
        except CreditRefused:
            invoices = Invoice.objects.filter(customer="bluebird").count()
            print(f"rolled back: {invoices} invoices, {queue.channel('bluebird').stats().waiting} messages")

        for message in queue.dequeue(10):
            with transaction.atomic():
                Invoice.objects.filter(pk=message.payload["invoice"]).update(euros=models.F("euros") * 2)
                result = queue.complete(message, conn=connection)
            print(f"{message.channel}: {result}")
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
