"""Only the modules listed here use Spark's or Hadoop's Java objects, which may change with each version of Spark.

A module that joins the list needs a fallback, or a test that runs on the oldest and the newest supported Spark. The
test reads the source for py4j, for the private attributes by which PySpark reaches Java, and for `catalyst`, the module
that wraps Spark's plans.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LIBRARY = CHECKOUT / "spark_jobs" / "deltalite"
PROVIDER = CHECKOUT / "airflow_provider_deltalite"

# The modules that may use Java, as paths below the library, and the purpose of each.
PURPOSE_BY_MODULE = {
    "spark/expressions/catalyst.py": "the plans of a frame, and expressions as JSON",
    "spark/write/direct_write.py": "the committer of structured streaming, which writes files in place",
    "spark/runtime/java_classes.py": "Java classes by their names",
    "spark/runtime/scala_reflection.py": "Scala's reflection, before Spark needs it",
    "spark/runtime/driver_age.py": "the age of the driver's JVM",
    "spark/runtime/termination.py": "the calls to the JVM: the exception of a SIGTERM waits until they have ended",
    "spark/runtime/errors.py": "the Java exception behind an error of Spark",
    "spark/expressions/sql.py": "Spark's SQL parser and plans, which show what SQL of requests and metadata can do",
    "spark/declared/schema.py": "Spark's SQL parser: the columns of a CREATE TABLE statement",
    "spark/hadoop/files.py": "Hadoop's file systems",
    "spark/hadoop/store.py": "Hadoop's file systems: ranges of a file",
    "spark/hadoop/tree.py": "Hadoop's file systems: listings and bulk deletes",
    "spark/merge/join_condition.py": "the expressions of a merge's ON",
    "spark/merge/clauses.py": "the columns that the values of updates read",
    "spark/expressions/non_deterministic.py": "the expressions that are not deterministic",
    "spark/scan/native_relation.py": "a scan of listed files",
    "spark/reader/json_inference.py": "the columns of JSON records in a frame, which PySpark 4.0 infers from RDDs only",
    "spark/reader/scanned_files.py": "the files that a scan reads",
    "spark/expressions/predicates.py": "SQL conditions as predicate trees",
}

# The attributes by which PySpark's classes reach Java, and the attribute of `HadoopFiles` with the JVM.
JAVA_ATTRIBUTES = frozenset(
    {"_jvm", "_jdf", "_jc", "_jsc", "_sc", "_gateway", "_jsparkSession", "_jreader", "_jwrite", "_jseq", "_jmap", "jvm"}
)
MODULES_THAT_WRAP_JAVA = frozenset({"py4j", "catalyst"})


def uses_java(source: str) -> bool:
    """Whether a module reaches Java: by an attribute, by `getattr`, or by an import."""
    # A search in the text is many times as fast as the parser, and most modules have none of these names.
    if not any(name in source for name in JAVA_ATTRIBUTES | MODULES_THAT_WRAP_JAVA):
        return False
    return any(
        _java_names_of(node) & (JAVA_ATTRIBUTES | MODULES_THAT_WRAP_JAVA) for node in ast.walk(ast.parse(source))
    )


def _java_names_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Attribute(attr=attribute):
            return {attribute} & JAVA_ATTRIBUTES
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(attribute)), *_]):
            return {attribute} & JAVA_ATTRIBUTES
        case ast.Import(names=names):
            return {part for alias in names for part in alias.name.split(".")} & MODULES_THAT_WRAP_JAVA
        case ast.ImportFrom(module=module, names=names):
            parts = {part for name in [module or "", *(alias.name for alias in names)] for part in name.split(".")}
            return parts & MODULES_THAT_WRAP_JAVA
        case _:
            return set()


def modules_that_use_java(folder: Path) -> set[str]:
    """Return the modules below a folder that use Java, as paths below the folder."""
    paths = folder.rglob("*.py")
    return {path.relative_to(folder).as_posix() for path in paths if uses_java(path.read_text(encoding="utf-8"))}


def test_only_the_listed_modules_of_the_library_use_java():
    assert modules_that_use_java(LIBRARY) == set(PURPOSE_BY_MODULE)


def test_the_provider_never_uses_java():
    assert modules_that_use_java(PROVIDER) == set()


@pytest.mark.parametrize(
    "source",
    [
        "plan = frame._jdf.queryExecution()",
        "def f(spark):\n    return spark.sparkContext._gateway",
        "getattr(spark, '_jvm')",
        "from py4j.protocol import Py4JError",
        "import py4j.java_gateway",
        "from deltalite.spark.expressions.catalyst import nodes_of",
        "from deltalite.spark.expressions import catalyst",
        "files.jvm.java.util.ArrayList()",
    ],
)
def test_a_use_of_java_is_detected(source):
    assert uses_java(source)


@pytest.mark.parametrize("source", ["from pyspark.sql import DataFrame", "frame.select('_jdf')", "jvm_name = 1"])
def test_other_code_does_not_count_as_a_use_of_java(source):
    assert not uses_java(source)
