import os

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
        }
    },
    INSTALLED_APPS=[],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.db import DatabaseError, models


class Order(models.Model):
    state = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False


{{code}}

pay_order(42)
try:
    pay_order(43)
except DatabaseError:
    pass
else:
    raise SystemExit("the message that is refused was no error")
