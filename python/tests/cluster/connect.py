"""Prints the digest of the histogram of a table and the status of images, by a server of Spark Connect that it starts."""

import hashlib
import sys

from pyspark.sql import SparkSession

import straddle_align.spark

table, *paths = sys.argv[1:]
spark = SparkSession.builder.remote("local-cluster[2,1,1024]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect")
histogram = straddle_align.spark.histogram(spark.read.parquet(table).repartition(7))
statuses = {row.target: row.status for row in straddle_align.spark.check(paths).collect()}
print(hashlib.sha256(histogram.to_bytes()).hexdigest(), *(statuses[path] for path in paths))
spark.stop()
