"""The contract's tables as Spark schemas."""

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from kafka_chaos.contract.columns import TABLES as COLUMNS

_TYPES: dict[str, DataType] = {"string": StringType(), "int32": IntegerType(), "int64": LongType()}
TABLES = {
    name: StructType([StructField(column.name, _TYPES[column.type]) for column in columns])
    for name, columns in COLUMNS.items()
}
