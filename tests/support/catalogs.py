"""Tables in the catalog of a Spark session."""

from __future__ import annotations


def register_table(spark, schema, name, location, *, provider="delta"):
    """Register the folder `location` as a table, as Delta Lake does. The session needs no classes of the format.

    A `CREATE TABLE` statement for another provider would need the classes. So the function creates a Parquet table,
    drops it, and stores its catalog entry again with the other provider.
    """
    spark.sql(f"CREATE TABLE {schema}.{name} (id BIGINT) USING parquet LOCATION '{location}'")
    catalog = spark._jsparkSession.sharedState().externalCatalog()
    entry = catalog.getTable(schema, name)
    count = sum(attribute.startswith("copy$default$") for attribute in dir(entry))
    values = [getattr(entry, f"copy$default${number}")() for number in range(1, count + 1)]
    option = spark._jvm.scala.Option
    changed_values = [option.apply(provider) if str(value) == "Some(parquet)" else value for value in values]
    spark.sql(f"DROP TABLE {schema}.{name}")
    catalog.createTable(entry.copy(*changed_values), False)
