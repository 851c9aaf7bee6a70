"""The command ``bloomparquet`` as it is installed: the commands of the core, ``jar`` and ``doctor``.

The core must not import this package, so this package adds its commands to the core's.
"""

from __future__ import annotations

import json
from dataclasses import asdict

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


@cli.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark, such as spark.master=yarn.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def doctor(paths: tuple[str, ...], conf: tuple[str, ...], as_json: bool) -> None:
    """Check that Spark prunes scans here, and those of each PATH.

    Starts a Spark application with the settings of spark-defaults.conf and --conf, calls attach, and prints a line for
    each thing that it checks, with the remedy if there is a problem. The exit code is then 1.
    """
    from pyspark_bloomparquet.jar import check

    pairs = [each.partition("=") for each in conf]
    for key, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{key!r}; expected KEY=VALUE", param_hint="--conf")
    report = check.doctor(paths, {key: value for key, _, value in pairs})
    echo(json.dumps([asdict(each) for each in report], ensure_ascii=False) if as_json else str(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
