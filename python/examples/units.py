"""What the writes of a load cost on units of each size, and where the partition should begin.

The load is made up: a journal that is written in order, and a database with pages of 16 KiB, on a partition that begins at
sector 63, as those of Windows XP do.
"""

import pyarrow

import straddle

START = 63 * 512
COUNT = 600

table = pyarrow.table(
    {
        "op": ["W"] * (2 * COUNT),
        "offset": [START + 4096 * index for index in range(COUNT)]
        + [START + 16384 * (index * 7919 % 60000) for index in range(COUNT)],
        "length": [4096] * COUNT + [16384] * COUNT,
        "volume": ["journal"] * COUNT + ["database"] * COUNT,
    }
)

histogram = straddle.Histogram().update(table)
for volume in histogram.report(best=True)["volumes"]:
    writes = volume["writes"]
    print(f"{volume['name']}: {writes['requests']} writes")
    for unit in writes["units"]:
        each = unit["partial_units"] / writes["requests"]
        better = unit["best"]
        print(
            f"  {unit['unit_bytes'] // 1024:5} KiB: {each:.2f} read-modify-writes for each write, "
            f"{better['partial_units'] / writes['requests']:.2f} if it were moved by {better['started_at_sectors'] * 512} bytes"
        )

for drive in straddle.drives():
    if drive["kind"] == "ssd":
        unit = drive["truth"]["unit_bytes"]
        total = histogram.report(units=[unit])["total"]["writes"]["units"][0]
        print(f"{drive['name']}: writes {total['amplification']:.2f} x what is asked for")
