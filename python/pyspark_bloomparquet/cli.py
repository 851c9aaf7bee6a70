"""The command ``bloomparquet`` as it is installed: the commands of the core, and ``jar``.

The core must not import this package, so this package adds its command to the core's.
"""

from __future__ import annotations

import json

import click

from bloomparquet.cli.main import cli, main
from bloomparquet.cli.terminal import echo

__all__ = ["cli", "main"]


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def jar(as_json: bool) -> None:
    """Print the path of the jar for Spark.

    For example: spark-submit --jars "$(bloomparquet jar)" job.py
    """
    from pyspark_bloomparquet.jar.session import SUPPORTED, jar_path

    path = str(jar_path())
    versions = [f"{major}.{minor}" for major, minor in SUPPORTED]
    echo(json.dumps({"jar": path, "spark": versions}, ensure_ascii=False) if as_json else path)


if __name__ == "__main__":
    main()
