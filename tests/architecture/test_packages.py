"""Which package may import which: imports point down only, in every file, and there is no circle.

An import counts wherever it stands: at the top of a module, in a function, under
``TYPE_CHECKING``, and as a string that is the dotted name of a module (``importlib.import_module``).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bloomparquet

ROOT = Path(bloomparquet.__file__).parents[1]
CORE, SPARK_PACKAGE = "bloomparquet", "pyspark_bloomparquet"

# Each package may import itself and these. `public` is the core's own `__init__`: what `import bloomparquet` gives.
_TOP_PACKAGES = {
    "bloomparquet.errors": "",
    "bloomparquet.storage": "errors",
    "bloomparquet.query": "errors",
    "bloomparquet.report": "errors",
    "bloomparquet.parquet": "errors storage query",
    "bloomparquet.orc": "errors storage query",
    "bloomparquet.planning": "errors storage query report parquet orc",
    "bloomparquet.reading": "errors storage query parquet orc planning",
    "bloomparquet.writing": "errors storage query parquet orc planning reading",
    "bloomparquet.indexing": "errors storage query parquet orc planning reading writing",
    "bloomparquet.tables": "errors storage query parquet planning reading writing indexing",
    "bloomparquet.pictures": "errors report reading writing",
    "bloomparquet.cli": "errors storage query report parquet planning reading writing indexing public",
    "pyspark_bloomparquet.options": "public errors storage query parquet planning",
    "pyspark_bloomparquet.read": "public errors storage query parquet planning reading",
    "pyspark_bloomparquet.jar": "public errors report storage query parquet planning tables",
    "pyspark_bloomparquet.jobs": "public errors planning",
    "pyspark_bloomparquet.indexing": "public errors storage planning indexing",
    "pyspark_bloomparquet.tables": "public errors storage query planning tables",
    "pyspark_bloomparquet.retrofit": "public errors storage query parquet planning writing",
}
TOP_PACKAGES = {package: set(below.split()) for package, below in _TOP_PACKAGES.items()}
# Packages within a package, from the bottom up. The package's own modules come where it is named.
INNER_PACKAGES = {
    "bloomparquet.query": {"query": set[str](), "sql": {"query"}, "evaluate": {"query"}},
    "bloomparquet.parquet": {
        "thrift": set[str](),
        "encryption": {"thrift"},
        "metadata": {"thrift", "encryption"},
        "bloom_filter": {"thrift", "encryption"},
        "pages": {"thrift", "encryption", "metadata"},
        "values": {"thrift", "metadata", "bloom_filter"},
    },
    "bloomparquet.planning": {
        "evidence": set[str](),
        "index": {"evidence"},
        "cache": {"evidence", "index"},
        "parquet": {"evidence", "index", "cache"},
        "orc": {"evidence", "index", "cache"},
        "planning": {"evidence", "index", "cache", "parquet", "orc"},
    },
    "bloomparquet.writing": {
        "filters": set[str](),
        "advice": {"filters"},
        "writing": {"filters", "advice"},
        "retrofit": {"filters", "advice", "writing"},
    },
    "pyspark_bloomparquet": {
        "options": set[str](),
        "read": {"options"},
        "jar": {"options"},
        "jobs": set[str](),
        "indexing": {"jobs"},
        "retrofit": {"options", "jobs"},
        "tables": {"options", "read"},
        "pyspark_bloomparquet": {"options", "read", "jar", "jobs", "indexing", "retrofit", "tables"},
    },
}
LOOSE = {
    CORE: {"__init__", "__main__", "errors"},
    SPARK_PACKAGE: {"__init__", "cli", "source"},  # Spark and the entry point look these up
    "pyspark_bloomorc": {"__init__"},
}


def _module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module_of(file): file for package in LOOSE for file in (ROOT / package).rglob("*.py")}


def _imports(module: str) -> set[str]:
    """The modules that a module imports, names, or holds as a string."""
    return {name for node in ast.walk(ast.parse(MODULES[module].read_text())) for name in _named(node)} - {module}


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            for alias in names:
                full = f"{module}.{alias.name}"
                yield full if full in MODULES else module
        case ast.ImportFrom():
            raise AssertionError("a relative import; expected the module's full name")
        case ast.Constant(value=str(text)) if "." in text and text.partition(":")[0] in MODULES:
            yield text.partition(":")[0]


IMPORTS = {module: _imports(module) for module in MODULES}


def _package_of(module: str) -> str:
    """``parquet`` for ``bloomparquet.parquet.thrift.reader``; ``public`` for the core's own ``__init__``."""
    parts = module.split(".")
    return "public" if module == CORE else parts[1] if parts[0] == CORE else parts[0]


def _inner_package_of(module: str, package: str) -> str:
    """``thrift`` for ``bloomparquet.parquet.thrift.reader`` in ``bloomparquet.parquet``. For a module directly in the
    package, the last part of the package's name."""
    inner = module.removeprefix(f"{package}.").split(".")
    is_package = f"{package}.{inner[0]}" in MODULES and MODULES[f"{package}.{inner[0]}"].name == "__init__.py"
    return inner[0] if module != package and is_package else package.rpartition(".")[2]


def _in(package: str) -> list[str]:
    return [module for module in MODULES if module == package or module.startswith(f"{package}.")]


@pytest.mark.parametrize("package", TOP_PACKAGES)
def test_a_package_imports_only_packages_below_it(package: str) -> None:
    """The packages of `pyspark_bloomparquet` may know one another; `INNER_PACKAGES` says how."""
    own = SPARK_PACKAGE if package.startswith(SPARK_PACKAGE) else package.rpartition(".")[2]
    allowed = {own, *TOP_PACKAGES[package]}
    upward = [
        f"{module} -> {name}"
        for module in _in(package)
        for name in sorted(IMPORTS[module] & MODULES.keys())
        if _package_of(name) not in allowed
    ]
    assert not upward, "\n".join(upward)


@pytest.mark.parametrize("package", INNER_PACKAGES)
def test_inner_packages_import_only_packages_below_them(package: str) -> None:
    modules = _in(package)
    upward = [
        f"{module} -> {name}"
        for module in modules
        for name in sorted(IMPORTS[module] & set(modules) - {package})
        if (own := _inner_package_of(module, package)) != (other := _inner_package_of(name, package))
        and other not in INNER_PACKAGES[package][own]
    ]
    assert not upward, "\n".join(upward)


def test_every_package_is_in_the_tables() -> None:
    packages = {module for module, file in MODULES.items() if file.name == "__init__.py"} - LOOSE.keys()
    inner = {f"{package}.{name}" for package, names in INNER_PACKAGES.items() for name in names}
    assert packages - inner - TOP_PACKAGES.keys() == {"bloomparquet.parquet.encryption.keys"}


def test_no_modules_import_one_another_in_a_circle() -> None:
    graph = {module: IMPORTS[module] & MODULES.keys() for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", LOOSE)
def test_no_module_lies_loose(package: str) -> None:
    assert {file.stem for file in (ROOT / package).glob("*.py")} == LOOSE[package]


@pytest.mark.parametrize("module", [name for name, file in MODULES.items() if file.name == "__init__.py"])
def test_a_package_says_what_it_owns(module: str) -> None:
    says = ast.get_docstring(ast.parse(MODULES[module].read_text())) or ""
    if module in LOOSE:
        assert says
        return
    assert says.startswith("Owns ")
    if module in TOP_PACKAGES and module.startswith(f"{CORE}."):
        assert "\nMust not " in says


@pytest.mark.parametrize("module", _in(CORE))
def test_the_core_knows_neither_spark_nor_pyspark_bloomparquet(module: str) -> None:
    outside = {name.partition(".")[0] for name in IMPORTS[module]}
    assert not outside & {"pyspark", "py4j", SPARK_PACKAGE, "pyspark_bloomorc"}


def test_the_core_starts_without_spark_and_without_orc() -> None:
    code = (
        "import sys\n"
        "for name in ('pyspark', 'py4j'): sys.modules[name] = None\n"
        "import bloomparquet, bloomparquet.cli.main, bloomparquet.cli.render, bloomparquet.reading.scan\n"
        "assert not [name for name in sys.modules if name.startswith('pyspark_bloomparquet')]\n"
        "assert not [name for name in sys.modules if name.startswith('bloomparquet.orc')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_and_documented() -> None:
    for name in bloomparquet.__all__:
        assert getattr(bloomparquet, name).__doc__, name
