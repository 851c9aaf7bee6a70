"""A file that is replaced keeps its owner, mode, attributes and links; where that is not allowed, nothing changes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from bloomparquet.storage.atomic import remove_leftover, replacing, temporary_name
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.core import graft_filters
from tests.support.file_systems import LOCAL, file_info, mounted, names, needs_root, run_as_nobody


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o444, 0o640, 0o6755])
def test_the_mode_is_kept(parquet: Path, mode: int) -> None:
    parquet.chmod(mode)
    add_filters(parquet, bloom="a")
    assert stat.S_IMODE(parquet.stat().st_mode) == mode


def test_a_new_file_has_the_default_mode(parquet: Path) -> None:
    parquet.chmod(0o600)
    before = os.umask(0o006)
    try:
        add_filters(parquet, parquet.parent / "new" / "b.parquet", bloom="a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((parquet.parent / "new" / "b.parquet").stat().st_mode) == 0o660


@needs_root
@pytest.mark.parametrize("change", ["add", "shrink"])
def test_the_owner_is_kept(parquet: Path, change: str) -> None:
    graft_filters(str(parquet), 1 << 15)
    os.chown(parquet, 4_711, 815)
    parquet.chmod(0o640)
    if change == "add":
        add_filters(parquet, bloom="b")
    else:
        shrink_filters(parquet)
    status = parquet.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4_711, 815, 0o640)


@needs_root
def test_an_owner_that_cannot_be_kept_is_an_error(parquet: Path) -> None:
    os.chown(parquet, 4_711, 815)
    before, refusal = parquet.read_bytes(), PermissionError(errno.EPERM, "Operation not permitted")
    error = pytest.raises(PermissionError, match=r"owner \(user 4711, group 815\) cannot be kept")
    with patch.object(os, "fchown", side_effect=refusal), error:
        add_filters(parquet, bloom="a")
    assert parquet.read_bytes() == before
    assert names(parquet) == ["a.parquet"]


def test_extended_attributes_are_kept(parquet: Path) -> None:
    try:
        os.setxattr(parquet, "user.mine", b"kept")
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes: {error}")
    add_filters(parquet, bloom="a")
    assert os.getxattr(parquet, "user.mine") == b"kept"


def test_the_target_of_a_symbolic_link_is_replaced(parquet: Path, tmp_path: Path) -> None:
    graft_filters(str(parquet), 1 << 15)
    link = tmp_path / "links" / "link.parquet"
    link.parent.mkdir()
    link.symlink_to(parquet)
    size = parquet.stat().st_size
    shrink_filters(link)
    assert link.is_symlink()
    assert parquet.stat().st_size < size
    assert (names(link), names(parquet)) == (["link.parquet"], ["a.parquet"])
    Path(temporary_name(str(parquet))).write_bytes(b"left")
    add_filters(link, bloom="b")
    assert names(parquet) == ["a.parquet"]


@needs_root
@pytest.mark.parametrize("change", ["add", "shrink", "elsewhere"])
def test_a_full_disk_leaves_the_file_as_it_was(parquet: Path, tmp_path: Path, change: str) -> None:
    content = graft_filters(str(parquet), 1 << 16) and parquet.read_bytes()
    room = len(content) + 20_000
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", f"size={room}", "tmpfs") as small:
        path = small / "a.parquet"
        path.write_bytes(content)
        changes: dict[str, Any] = {
            "add": lambda: add_filters(path, bloom="b"),
            "elsewhere": lambda: add_filters(parquet, small / "b.parquet", bloom="b"),
            "shrink": lambda: shrink_filters(path),
        }
        with pytest.raises(OSError, match="No space left on device") as caught:
            changes[change]()
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == content
        assert names(path) == ["a.parquet"]
        if change != "elsewhere":
            (outcome,) = add_filters(path, bloom="b", on_error="report")
            assert (outcome.action, names(path)) == ("failed", ["a.parquet"])
            assert "No space left" in str(outcome.error)


@needs_root
def test_a_read_only_leftover_is_removed(tmp_path: Path) -> None:
    """A writer that is killed at the end has given the temporary file the mode of the old one."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for parent in [*folder.parents][:-1]:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.chown(folder, 65_534, 65_534)
    hidden = folder / ".a.bloomparquet-tmp"
    hidden.write_bytes(b"left")
    hidden.chmod(0o444)
    os.chown(hidden, 65_534, 65_534)
    assert run_as_nobody(lambda: remove_leftover(LOCAL, str(folder / "a"))) == 0
    assert os.listdir(folder) == []


@needs_root
def test_a_directory_without_permission_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a").write_bytes(b"old")
    for parent in [*folder.parents][:-1]:
        parent.chmod(parent.stat().st_mode | 0o011)
    folder.chmod(0o755)

    def write() -> None:
        with replacing(LOCAL, str(folder / "a"), file_info(folder / "a")) as output:
            output.commit()

    assert run_as_nobody(write) == 13
    assert (folder / "a").read_bytes() == b"old"
