"""What an installed distribution must do without any other package (scripts/wheel)."""

from importlib.metadata import files, metadata
from pathlib import Path

import straddle_align

about = metadata("straddle-align")
assert about["Version"] == straddle_align.__version__
licences = {Path(name).name for name in about.get_all("License-File", [])}
assert licences == {"LICENSE-MIT", "LICENSE-APACHE"}, licences
assert licences <= {file.name for file in files("straddle-align") or []}

# A partition at sector 63.
table = bytearray(64 * 512)
table[446:462] = bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + (63).to_bytes(4, "little") + (8192).to_bytes(4, "little")
table[510:512] = b"\x55\xaa"
Path("xp.img").write_bytes(table + bytes(8192 * 512))
target = straddle_align.check("xp.img", only="S001")["targets"][0]
assert target["status"] == "error" and target["findings"], target

Path("trace.csv").write_text("time,op,offset,length\n0.5,W,32256,4096\n")
histogram = straddle_align.Histogram.from_file("trace.csv")
assert histogram.report()["total"]["writes"]["units"][0]["partial_units"] == 2
assert straddle_align.Histogram.from_bytes((histogram + histogram).to_bytes()).requests == 2
