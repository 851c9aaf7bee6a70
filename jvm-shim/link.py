"""Check that the jar links: ``.venv-4.0/bin/python jvm-shim/link.py``.

The jar is compiled against one Spark and runs on several. Every class, field and method that its classes refer to, and
every method that they have to implement, must exist in the jars of this interpreter's PySpark. A test would only show
what it runs.

Source: The Java Virtual Machine Specification, chapter 4 (the class file format) and section 5.4.3 (resolution).
"""

from __future__ import annotations

import struct
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build import JAR, BuildError, spark_jars

_JDK = ("java/", "javax/")
# Types of the JDK with no methods of their own, or with these. Other types of the JDK may have any method.
_METHODS_OF_THE_JDK = {
    "java/lang/Object": {"equals", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait"},
    "java/io/Serializable": set[str](),
    "java/lang/Cloneable": set[str](),
}
_ABSTRACT, _INTERFACE = 0x0400, 0x0200
# The bytes of each kind of constant, without its tag. Kind 1 is text, of its own length.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_CLASS, _FIELD, _METHODS = 7, 9, (10, 11)

Member = tuple[str, str]  # name and descriptor


@dataclass(frozen=True)
class ClassFile:
    name: str
    access: int
    supertypes: tuple[str, ...]
    members: dict[Member, int]  # fields and methods, with their access flags
    classes: frozenset[str]  # what it refers to
    references: frozenset[tuple[str, Member]]


def parse(content: bytes) -> ClassFile:
    constants: dict[int, tuple[int, bytes]] = {}
    (count,) = struct.unpack_from(">H", content, 8)
    at, index = 10, 1
    while index < count:
        kind = content[at]
        start = at + 3 if kind == 1 else at + 1
        size = struct.unpack_from(">H", content, at + 1)[0] if kind == 1 else _SIZES[kind]
        constants[index] = (kind, content[start : start + size])
        at = start + size
        index += 2 if kind in (5, 6) else 1  # long and double take two places

    def numbers(index: int) -> tuple[int, ...]:
        value = constants[index][1]
        return struct.unpack(f">{len(value) // 2}H", value)

    def text(index: int) -> str:
        return constants[index][1].decode(errors="replace")

    def class_name(index: int) -> str:
        return text(numbers(index)[0])

    access, this, parent, interfaces = struct.unpack_from(">4H", content, at)
    at += 8
    supertypes = [parent, *struct.unpack_from(f">{interfaces}H", content, at)]
    at += 2 * interfaces
    members: dict[Member, int] = {}
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", content, at)
        at += 2
        for _ in range(count):
            flags, name, descriptor, attributes = struct.unpack_from(">4H", content, at)
            members[text(name), text(descriptor)] = flags
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", content, at + 2)[0]
    references = set()
    for kind, value in constants.values():
        if kind == _FIELD or kind in _METHODS:
            owner, signature = struct.unpack(">2H", value)
            name, descriptor = numbers(signature)
            references.add((class_name(owner), (text(name), text(descriptor))))
    return ClassFile(
        name=class_name(this),
        access=access,
        supertypes=tuple(class_name(each) for each in supertypes if each),
        members=members,
        classes=frozenset(class_name(index) for index, (kind, _) in constants.items() if kind == _CLASS),
        references=frozenset(references),
    )


class ClassPath:
    """The classes of some jars. Earlier jars hide later ones."""

    def __init__(self, jars: list[Path]) -> None:
        self._archives: dict[str, zipfile.ZipFile] = {}
        self._parsed: dict[str, ClassFile | None] = {}
        for jar in jars:
            archive = zipfile.ZipFile(jar)
            for name in archive.namelist():
                if name.endswith(".class"):
                    self._archives.setdefault(name.removesuffix(".class"), archive)

    def read(self, name: str) -> ClassFile | None:
        """The class, or None if no jar has it: also for classes of the JDK."""
        if name not in self._parsed:
            archive = self._archives.get(name)
            self._parsed[name] = None if archive is None else parse(archive.read(f"{name}.class"))
        return self._parsed[name]

    def has(self, name: str) -> bool:
        return name.startswith((*_JDK, "[")) or name in self._archives

    def hierarchy(self, name: str) -> Iterator[str]:
        """The names of a class and its supertypes, nearest first."""
        names = [name]
        for each in names:
            yield each
            parsed = self.read(each)
            if parsed is not None:
                names.extend(supertype for supertype in parsed.supertypes if supertype not in names)

    def has_member(self, owner: str, member: Member) -> bool:
        for name in self.hierarchy(owner):
            if name.startswith(_JDK):
                if member[0] in _METHODS_OF_THE_JDK.get(name, {member[0]}):
                    return True
            elif (parsed := self.read(name)) is None or member in parsed.members:
                return True  # a missing class is reported as such
            if member[0] == "<init>":
                break
        return False

    def unimplemented(self, name: str) -> Iterator[tuple[str, Member]]:
        abstract: dict[Member, str] = {}
        implemented: set[Member] = set()
        for each in self.hierarchy(name):
            parsed = self.read(each)
            for member, flags in parsed.members.items() if parsed else ():
                if flags & _ABSTRACT:
                    abstract.setdefault(member, each)
                else:
                    implemented.add(member)
        inherited = _METHODS_OF_THE_JDK["java/lang/Object"] | {"name", "ordinal"}  # of Object and Enum
        for member, owner in abstract.items():
            if member not in implemented and member[0] not in inherited:
                yield owner, member


def missing(jar: Path, libraries: list[Path]) -> list[str]:
    """What the classes of `jar` need and `libraries` do not have, one line each."""
    classes = ClassPath([jar, *libraries])
    with zipfile.ZipFile(jar) as archive:
        names = sorted(name.removesuffix(".class") for name in archive.namelist() if name.endswith(".class"))
    lines = []
    for name in names:
        own = classes.read(name)
        if own is None:
            continue
        absent = [each for each in sorted(own.classes) if not classes.has(each)]
        lines += [f"{name} needs the class {each}" for each in absent]
        for owner, member in sorted(own.references):
            if not owner.startswith((*_JDK, "[")) and not classes.has_member(owner, member):
                lines.append(f"{name} needs {owner}.{''.join(member)}")
        if not own.access & (_ABSTRACT | _INTERFACE):
            lines += [f"{name} lacks {owner}.{''.join(member)}" for owner, member in classes.unimplemented(name)]
    return lines


def main() -> int:
    jar = Path(sys.argv[1]) if len(sys.argv) > 1 else JAR
    try:
        lines = missing(jar, sorted(spark_jars().glob("*.jar")))
    except (BuildError, OSError) as error:
        lines = [str(error)]
    print("\n".join(lines) or f"the jar links against PySpark {version('pyspark')}", file=sys.stderr if lines else None)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
