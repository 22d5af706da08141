from django.db import models


class Order(models.Model):
    customer = models.TextField()
    billed = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"order {self.pk}"
