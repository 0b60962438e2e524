"""Counts a table of requests on Spark, and prints what its writes cost on each unit.

    spark-submit spark_units.py trace.parquet [COLUMNS]
"""

import sys

from pyspark.sql import SparkSession

import straddle_align.spark

path, *columns = sys.argv[1:]
spark = SparkSession.builder.appName("spark_units").getOrCreate()
histogram = straddle_align.spark.histogram(spark.read.parquet(path), *columns)
print(histogram)
for unit in histogram.report()["total"]["writes"]["units"]:
    print(f"{unit['unit_bytes'] // 1024:5} KiB: {unit.get('amplification', 0):.2f} x what is asked for is written")
spark.stop()
