from lonnymq.django.task_framework import Task

__all__ = ["Task"]
