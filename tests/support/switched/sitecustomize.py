"""Python imports this module when it starts, if its directory is on the ``PYTHONPATH``."""

from tests.support.switches import run_without

run_without()
