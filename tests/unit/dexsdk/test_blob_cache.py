"""The cache is bounded, disposable and belongs to one process [BLOB-5]."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dexsdk import BlobCache, BlobCacheConfig, open_blob_cache

Open = Callable[..., BlobCache]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens caches in the test's directory, and closes them after it."""
    with ExitStack() as stack:

        def open_cache(max_bytes: int = 100, counters: int = 10_000) -> BlobCache:
            return stack.enter_context(closing(open_blob_cache(BlobCacheConfig(tmp_path, max_bytes, counters))))

        yield open_cache


def cached_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_blob_5_blobs_of_any_id_come_back_until_deleted(tmp_path: Path, opened: Open) -> None:
    cache = opened()
    for number, blob_id in enumerate(["a/b", "../x", "\ud800", ""]):
        assert cache.get(blob_id) is None
        assert cache.put(blob_id, bytes([number]))
        assert cache.get(blob_id) == bytes([number])
    cache.delete("a/b")
    assert cache.get("a/b") is None
    cache.delete_all()
    assert cache.get("../x") is None
    assert cached_bytes(tmp_path) == 0


def test_blob_5_the_least_recently_used_makes_room_and_the_bound_holds(tmp_path: Path, opened: Open) -> None:
    cache = opened()
    for blob_id in ("a", "b"):
        assert cache.put(blob_id, b"x" * 50)
    cache.get("a")
    cache.get("c")
    assert cache.put("c", b"x" * 50)
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cached_bytes(tmp_path) <= 100


def test_blob_5_put_refuses_what_is_too_large_or_used_less_than_what_it_would_push_out(
    tmp_path: Path, opened: Open
) -> None:
    cache = opened()
    assert not cache.put("large", b"x" * 101)
    assert cache.put("famous", b"x" * 100)
    for _ in range(3):
        cache.get("famous")
    assert not cache.put("newcomer", b"x" * 100)
    assert cache.get("famous") is not None


def test_blob_5_a_replaced_blob_counts_once(tmp_path: Path, opened: Open) -> None:
    cache = opened()
    for _ in range(5):
        assert cache.put("a", b"x" * 80)
    assert cached_bytes(tmp_path) == 80


def test_blob_5_a_broken_cache_only_misses(tmp_path: Path, opened: Open) -> None:
    cache = opened()
    cache.put("a", b"1")
    for path in tmp_path.iterdir():
        path.unlink()
    assert cache.get("a") is None
    assert cache.put("a", b"2")
    assert cache.get("a") == b"2"


def test_blob_5_a_directory_has_one_process_and_is_warm_for_the_next(tmp_path: Path, opened: Open) -> None:
    first = opened()
    first.put("a", b"1")
    (tmp_path / "cut-off.partial").write_bytes(b"half")
    with pytest.raises(OSError, match="unavailable"):
        opened()
    first.close()
    first.close()
    assert not first.put("b", b"2")
    second = opened()
    assert second.get("a") == b"1"
    assert cached_bytes(tmp_path) == 1


def test_blob_5_a_smaller_bound_is_kept_at_opening(tmp_path: Path, opened: Open) -> None:
    first = opened()
    for blob_id in ("a", "b"):
        first.put(blob_id, b"x" * 40)
    first.close()
    opened(max_bytes=50)
    assert cached_bytes(tmp_path) == 40


def test_blob_5_remembered_uses_are_bounded_and_fade(tmp_path: Path, opened: Open) -> None:
    cache = opened(max_bytes=10, counters=2)
    cache.put("old", b"x" * 10)
    for blob_id in ("b", "c", "d", "e"):
        cache.get(blob_id)
    cache.get("new")
    assert cache.put("new", b"x" * 10)
    assert cache.get("old") is None


@pytest.mark.parametrize(("max_bytes", "counters"), [(0, 1), (1, 0), (True, 1)])
def test_gen_2_bounds_are_positive_ints(tmp_path: Path, max_bytes: int, counters: int) -> None:
    with pytest.raises(ValueError, match="an int of at least 1 is needed"):
        BlobCacheConfig(tmp_path, max_bytes, counters)
