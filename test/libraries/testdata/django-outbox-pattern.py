"""Migrates the application's tables, and saves models of which the library writes messages. Arguments: setup, or the numbers of orders."""
import os
import sys
from urllib.parse import unquote, urlparse

import django
from django.conf import settings

url = urlparse(os.environ["DATABASE_URL"])
settings.configure(
    INSTALLED_APPS=["django_outbox_pattern"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": unquote(url.username or ""), "PASSWORD": unquote(url.password or ""),
                           "HOST": url.hostname, "PORT": url.port}},
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, models  # noqa: E402
from django_outbox_pattern.decorators import Config, publish  # noqa: E402


@publish([Config(destination="orders", fields=["number", "customer"], version="v1")])
class Order(models.Model):
    number = models.IntegerField()
    customer = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


if sys.argv[1] == "setup":
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
else:
    for number in sys.argv[1:]:
        Order(number=int(number), customer="c7").save()
