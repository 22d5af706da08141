from django.contrib import admin
from django.http import HttpRequest, JsonResponse
from django.urls import path

from tests.django.site.shop import tasks
from tests.django.site.shop.models import Order


def order(request: HttpRequest) -> JsonResponse:
    """A view in a transaction of its request."""
    made = Order.objects.create(customer=request.GET["customer"])
    result = tasks.bill.enqueue(made.pk, tenant=made.customer)
    if "fail" in request.GET:
        raise ValueError("no stock")
    return JsonResponse({"result": result.id})


async def order_async(request: HttpRequest) -> JsonResponse:
    result = await tasks.add.aenqueue(1, 2)
    return JsonResponse({"result": result.id})


urlpatterns = [path("admin/", admin.site.urls), path("order", order), path("order-async", order_async)]
