"""The zone of the clock that ORC's TIMESTAMP columns are read by.

Such a column stores what a clock showed. ``spark.read.orc`` takes it for the clock of the JVM that reads, whose default
zone no Python data source is told; but the process that it runs in is a child of that JVM, and what made the zone is
seen there: the property ``user.timezone``, the variable ``TZ``, or the machine. A program that changes the JVM's zone
while it runs cannot be seen.

Source: OpenJDK, ``TimeZone.setDefaultZone`` and ``TimeZone_md.c``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from zoneinfo import available_timezones

_PROPERTY = "-Duser.timezone="
_JAVAS_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")  # what comes later wins, as in Java
_MOST_ANCESTORS = 8
_LOCAL_TIME = "/etc/localtime"
_ZONES = "/zoneinfo/"
_UTC = frozenset({"utc", "gmt", "z", "uct", "zulu", "universal", "greenwich", "gmt0", "etc/utc", "etc/gmt", "etc/uct"})
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def jvm_zone() -> str | None:
    """The default zone of the JVM above this process; None where there is none, or its zone cannot be told."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        try:
            name, parent = _status(process)
            if name == "java":
                return _zone_of(_texts(process, "cmdline"), _environment(process))
        except OSError:
            return None
        process = parent
        if process <= 1:
            break
    return None


def machine_zone() -> str | None:
    """The zone of the machine, which is UTC if none was set; None where it cannot be told."""
    try:
        found = os.path.realpath(_LOCAL_TIME, strict=True)
    except OSError:
        return "UTC"
    name = found.partition(_ZONES)[2].removeprefix("posix/")
    return name if is_known(name) else None


def is_known(zone: str) -> bool:
    """Whether a zone is one that Java and Arrow take for the same."""
    return zone in available_timezones() or _OFFSET.fullmatch(zone) is not None


def is_utc(zone: str) -> bool:
    """Whether a zone is always that of 1970-01-01 00:00 UTC."""
    name = arrow_zone(zone)
    return name == "+00:00" or name.lower() in _UTC


def same_zone(one: str, other: str) -> bool:
    return one == other or (is_utc(one) and is_utc(other))


def arrow_zone(zone: str) -> str:
    """`zone` as Arrow knows it: an offset without Java's ``GMT`` in front."""
    match = _OFFSET.fullmatch(zone)
    return zone if match is None else f"{match[1]}{int(match[2]):02d}:{match[3] or '00'}".replace("-00:00", "+00:00")


def _zone_of(arguments: Iterable[str], environment: dict[str, str]) -> str | None:
    words = list(arguments)
    for name in _JAVAS_OPTIONS:
        words += environment.get(name, "").replace('"', "").split()
    given = [word.removeprefix(_PROPERTY) for word in words if word.startswith(_PROPERTY)]
    zone = given[-1] if given and given[-1] else environment.get("TZ", "").removeprefix(":")
    if not zone:
        return machine_zone()
    # Java has names of its own, and takes what it does not know for GMT: whatever is not certain is not told.
    return zone if is_known(zone) else None


def _status(process: int) -> tuple[str, int]:
    with open(f"/proc/{process}/stat") as file:
        text = file.read()
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])


def _texts(process: int, name: str) -> list[str]:
    with open(f"/proc/{process}/{name}", "rb") as file:
        return [os.fsdecode(text) for text in file.read().split(b"\0")]


def _environment(process: int) -> dict[str, str]:
    pairs = (text.partition("=") for text in _texts(process, "environ"))
    return {name: value for name, _, value in pairs}
