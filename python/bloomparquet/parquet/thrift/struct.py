"""Structs of Thrift's compact protocol: every field keeps the type and the value that it was read with.

A subclass of :class:`ThriftStruct` names the fields of one definition, so that they are addressed by name. Fields
outside the definition are kept too: a struct that is read and written again loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast, overload

from bloomparquet.errors import FormatError, quoted

if TYPE_CHECKING:
    from typing_extensions import Self

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
"""The types of the compact protocol."""
INTEGERS = frozenset({I16, I32, I64})
LISTS = frozenset({LIST, SET})
FIXED_SIZES = {BYTE: 1, DOUBLE: 8, UUID: 16}
"""Types whose values take a fixed number of bytes."""

_KIND_NAMES = {
    TRUE: "a boolean", BYTE: "a byte", I16: "an integer", I32: "an integer", I64: "an integer", BINARY: "bytes",
    STRUCT: "a struct",
}  # fmt: skip
_LIST_NAMES = {I32: "a list of integers", BINARY: "a list of bytes", STRUCT: "a list of structs"}
_INTERCHANGEABLE = INTEGERS | {BYTE}, LISTS

T = TypeVar("T")


class _Definition(type):
    """Gives definitions no instance attributes beside their fields, so that setting a misspelt field is an error."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Definition:
        return super().__new__(cls, name, bases, {"__slots__": (), **namespace})


class ThriftStruct(dict[int, Any], metaclass=_Definition):
    """A struct: field id → value, and in `kinds` field id → type.

    The type of a boolean is TRUE, whatever its value. A double is its eight bytes, so that NaN payloads survive.
    """

    __slots__ = ("kinds",)

    fields: ClassVar[dict[str, Field[Any]]] = {}
    """The definition: field name → field."""
    nested: ClassVar[dict[int, type[ThriftStruct]]] = {}
    """Field id → the definition of the struct, or of the list's structs, that the field holds."""

    def __init__(self, **values: Any) -> None:
        """A struct with these fields, by name. None leaves a field out."""
        self.kinds: dict[int, int] = {}
        for name, value in values.items():
            self.fields[name].__set__(self, value)

    def __init_subclass__(cls) -> None:
        cls.fields = {name: field for name, field in vars(cls).items() if isinstance(field, Field)}
        cls.nested = {field.id: field.struct for field in cls.fields.values() if field.struct is not None}

    def put(self, field_id: int, kind: int, value: Any) -> None:
        """Set any field, also one outside the definition."""
        self[field_id] = value
        self.kinds[field_id] = kind

    def drop(self, field_id: int) -> None:
        """Remove a field, if it is set."""
        self.pop(field_id, None)
        self.kinds.pop(field_id, None)

    def has(self, *fields: Field[Any]) -> bool:
        """Whether any of `fields` is set, with whatever type."""
        return any(field.id in self for field in fields)

    def copy_from(self, source: ThriftStruct, *fields: Field[Any]) -> None:
        """Set each of `fields` that `source` has."""
        for field in fields:
            if field.id in source:
                self.put(field.id, source.kinds[field.id], source[field.id])

    def check(self) -> Self:
        """Return this struct. Raises FormatError if a field of the definition has another type."""
        for field in self.fields.values():
            field.read(self)
        return self

    def member(self) -> str:
        """The name of a union's member. Empty if there is none, if it is unknown or has another type than in the
        definition, or if there are several: readers differ in which one they take."""
        if len(self) != 1:
            return ""
        ((number, kind),) = self.kinds.items()
        return next((name for name, field in self.fields.items() if (field.id, field.kind) == (number, kind)), "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThriftStruct) and self.kinds == other.kinds and super().__eq__(other)

    def __ne__(self, other: object) -> bool:  # dict's own ignores the types
        return not self == other

    __hash__ = None


class ThriftList(list[T]):
    """A list or a set (`container`), and the type of its elements."""

    __slots__ = ("container", "kind")

    def __init__(self, container: int, kind: int, values: list[T]) -> None:
        super().__init__(values)
        self.container, self.kind = container, kind

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True and (not isinstance(other, ThriftList) or self.kind == other.kind)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


class ThriftMap(NamedTuple):
    """A map: the types of its keys and values (0 if it is empty), and the pairs in their order."""

    key_kind: int
    value_kind: int
    pairs: list[tuple[Any, Any]]


class Field(Generic[T]):
    """An optional field of a definition.

    On an instance it reads the value, None if the field is not set, and raises FormatError if the file gives it another
    type. Setting it uses the type of the definition; None removes it. On the class it is the field itself, with its
    `id`.
    """

    __slots__ = ("element", "id", "kind", "name", "owner", "struct")

    def __init__(self, field_id: int, kind: int, *, element: int = 0, struct: type[ThriftStruct] | None = None) -> None:
        self.id, self.kind, self.struct = field_id, kind, struct
        self.element = STRUCT if kind == LIST and struct is not None else element

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner.__name__, name

    @overload
    def __get__(self, struct: None, owner: type) -> Self: ...
    @overload
    def __get__(self, struct: ThriftStruct, owner: type) -> T | None: ...
    def __get__(self, struct: ThriftStruct | None, owner: type) -> Self | T | None:
        return self if struct is None else self.read(struct)

    def __set__(self, struct: ThriftStruct, value: T | None) -> None:
        if value is None:
            struct.drop(self.id)
        elif self.kind == LIST and not isinstance(value, ThriftList):
            struct.put(self.id, LIST, ThriftList(LIST, self.element, cast("list[Any]", value)))
        else:
            struct.put(self.id, self.kind, value)

    def read(self, struct: ThriftStruct) -> T | None:
        """The value in `struct`; None if it is not set."""
        value = struct.get(self.id)
        if value is None:
            return None
        is_list = self.kind == LIST
        expected = _same_kind(struct.kinds[self.id], self.kind)
        if not expected or (is_list and value and not _same_kind(value.kind, self.element)):
            name = _LIST_NAMES[self.element] if is_list else _KIND_NAMES[self.kind]
            raise FormatError(f"{self} is {quoted(value)}; expected {name}")
        return cast("T", value)

    def __str__(self) -> str:
        return f"field {self.id} ({self.name}) of {self.owner}"


class RequiredField(Field[T]):
    """A field without which a struct is damaged: reading it raises FormatError if it is not set."""

    __slots__ = ()

    @overload
    def __get__(self, struct: None, owner: type) -> Self: ...
    @overload
    def __get__(self, struct: ThriftStruct, owner: type) -> T: ...
    def __get__(self, struct: ThriftStruct | None, owner: type) -> Self | T:
        if struct is None:
            return self
        value = self.read(struct)
        if value is None:
            raise FormatError(f"{self} is missing")
        return value


def _same_kind(kind: int, expected: int) -> bool:
    """Whether a value of type `kind` can be read as `expected`. Writers differ in the width of integers."""
    return kind == expected or any(kind in kinds and expected in kinds for kinds in _INTERCHANGEABLE)
