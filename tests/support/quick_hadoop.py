"""Makes Hadoop quicker in the JVM of a Spark session on local files.

A write of one row creates about ten files and folders. Without its native library, Hadoop sets the
permissions of each by the program `chmod`. Each process takes six milliseconds of CPU time.

Each task and each scan gets a copy of Hadoop's configuration. Of its 1,100 settings, 800 are defaults for YARN,
MapReduce and servers. A local session has none of them, and their code has the same defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark contains the compiler of these classes, and uses it for generated code.
_SOURCE = """
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class QuickLocalFileSystem extends LocalFileSystem {
    public QuickLocalFileSystem() {
        super(new QuickRawLocalFileSystem());
    }

    static class QuickRawLocalFileSystem extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }
    }
}
"""

# The parts of names that follow `mapreduce.`. Spark uses the others, such as `fileoutputcommitter`.
_UNUSED_IN_MAPREDUCE = "app client cluster ifile job jobhistory jobtracker jvm map reduce shuffle task tasktracker"
_UNUSED_PREFIXES = ["ha.", "ipc.", "yarn.", "hadoop.http.", "hadoop.registry.", "hadoop.zk."]
_UNUSED_PREFIXES += [f"mapreduce.{part}." for part in _UNUSED_IN_MAPREDUCE.split()]


def make_hadoop_quicker(spark: SparkSession) -> None:
    """Let all later reads and writes use a `QuickLocalFileSystem`, and a configuration without unused settings."""
    jvm, session_configuration = spark._jvm, spark._jsc.hadoopConfiguration()
    assert jvm is not None
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE)
    quick_configuration = jvm.org.apache.hadoop.conf.Configuration(session_configuration)
    quick_configuration.setClassLoader(compiler.getClassLoader())
    quick_configuration.set("fs.file.impl", "QuickLocalFileSystem")
    # Hadoop caches one object for each kind of file system, until somebody closes it. Later reads and writes get the
    # object that the second call creates.
    local_files, file_systems = jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.fs.FileSystem
    file_systems.get(local_files, quick_configuration).close()
    file_systems.get(local_files, quick_configuration)
    # This class adds the defaults of YARN and MapReduce to all configurations, so it must come first.
    jvm.java.lang.Class.forName("org.apache.hadoop.mapred.JobConf")
    for prefix in _UNUSED_PREFIXES:
        for name in session_configuration.getPropsWithPrefix(prefix).keySet():
            session_configuration.unset(f"{prefix}{name}")
