"""Audits: against `straddle check --json`."""

from __future__ import annotations

import errno
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from judges import run

import straddle_align

SECTOR = 512


def image(path: Path, start: int) -> Path:
    """Write an image with one Linux partition from a sector on."""
    table = bytearray(SECTOR)
    table[446:462] = bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + start.to_bytes(4, "little") + (8192).to_bytes(4, "little")
    table[510:512] = b"\x55\xaa"
    with path.open("wb") as file:
        file.write(table)
        file.truncate((start + 8192) * SECTOR)
    return path


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    places = {"xp": 63, "aligned": 2048, "odd": 2049}
    (tmp_path / "blank.img").write_bytes(bytes(1 << 20))
    (tmp_path / "noise.img").write_bytes(bytes(range(1, 256)) * 4096)
    made = [image(tmp_path / f"{name} ü.img", start) for name, start in places.items()]
    return [str(path) for path in [*made, tmp_path / "blank.img", tmp_path / "noise.img"]]


def test_each_image_is_judged_as_by_the_command_line(images: list[str]) -> None:
    for path in [*images, "drive:wd10ears", "drive:wd10ears,jumper=on"]:
        assert straddle_align.check(path) == run("check", path, "--json")
    assert straddle_align.check(Path(images[0])) == straddle_align.check(images[0])


def test_options_are_those_of_the_command_line(images: list[str]) -> None:
    for options, arguments in [
        ({"assume": "physical=16384"}, ["--assume", "physical=16384"]),
        ({"assume": "drive:wd10ears"}, ["--assume", "drive:wd10ears"]),
        ({"only": ["S001"]}, ["--only", "S001"]),
        ({"only": "S001"}, ["--only", "S001"]),
        ({"ignore": ["s001"]}, ["--ignore", "S001"]),
    ]:
        expected = run("check", images[0], "--json", *arguments)
        assert straddle_align.check(images[0], **options) == expected
        assert straddle_align.check_all(images[:1], **options) == expected


def test_many_images_are_one_document_with_the_failed_ones_in_it(images: list[str]) -> None:
    paths = [*images * 300, "/no/such/image", "drive:no-such-drive", "ftp://host/x.img", "wd10ears"]
    document = straddle_align.check_all(paths)
    assert document["summary"]["failed"] == 3
    assert document == run("check", "--json", *paths)


def test_a_task_of_a_cluster_has_the_same_for_each_image(images: list[str]) -> None:
    import json

    rows = straddle_align._straddle.check_each([*images, "/no/such/image"])
    for (name, status, text), path in zip(rows, images, strict=False):
        target = straddle_align.check(path)["targets"][0]
        assert (name, status, json.loads(text)) == (path, target["status"], target)
    assert rows[-1][1] == "failed"


def test_what_cannot_be_opened_is_an_os_error() -> None:
    with pytest.raises(straddle_align.TargetError) as raised:
        straddle_align.check("/no/such/image")
    error = raised.value
    assert isinstance(error, OSError) and isinstance(error, straddle_align.Error)
    assert (error.errno, error.filename) == (errno.ENOENT, "/no/such/image")
    assert str(error).startswith("/no/such/image: ")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.errno, again.filename) == (str(error), error.errno, error.filename)


def test_a_backing_file_is_opened_if_it_is_allowed(images: list[str], tmp_path: Path) -> None:
    overlay = str(tmp_path / "overlay.qcow2")
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", images[0], overlay]
    if not shutil.which(create[0]):
        pytest.skip("there is no qemu-img")
    subprocess.run(create, check=True)
    with pytest.raises(straddle_align.TargetError, match="not opened without allow_backing"):
        straddle_align.check(overlay)
    found = straddle_align.check(overlay, allow_backing=[images[0]])
    assert found == run("check", overlay, "--json", "--allow-backing", images[0])


WRONG: dict[str, Any] = {
    "X999: no such rule": lambda: straddle_align.check("x", only=["X999"]),
    "furlongs": lambda: straddle_align.check("x", assume="furlongs"),
    "no-such-drive": lambda: straddle_align.check("drive:no-such-drive"),
    "no-such": lambda: straddle_align.drive("no-such"),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_argument_is_a_value_error(message: str) -> None:
    with pytest.raises(straddle_align.InputError, match=message) as raised:
        WRONG[message]()
    assert "--" not in str(raised.value)


def test_drives_are_those_of_the_command_line() -> None:
    assert straddle_align.drives() == run("drive", "list", "--json")["drives"]
    for name in ["wd10ears", "drive:wd10ears,jumper=on"]:
        expected = run("drive", "show", name.removeprefix("drive:"), "--json")["drives"]
        assert [straddle_align.drive(name)] == expected
