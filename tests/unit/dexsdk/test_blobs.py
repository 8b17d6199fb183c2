"""What the SDK uploads, fetches, verifies and caches [BLOB-2, BLOB-5, LIM-1, ATTR-7]."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexpb.v1.blobs import Reference, make_reference, read_reference
from dexsdk import BlobCache, BlobCacheConfig, DexServiceError, ValueTooLargeError, open_blob_cache
from dexsdk._blob_frames import values_of, with_values
from dexsdk._blobs import Blobs, BlobTerms
from dexsdk._conversation import Ask, Load, Offload, Request
from dexsdk._large_requests import ask_carrying, load
from dexsdk._status import RemoteStatus

SMALL = b'"small"'
LARGE = b'"' + b"x" * 5_000 + b'"'
OTHER = b'"' + b"y" * 5_000 + b'"'
TERMS = BlobTerms(threshold_bytes=4_096, max_bytes=10_000)


class Shelf:
    """A BlobTransfer that remembers what it was asked."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.asked: list[str] = []

    def terms(self, is_wanted: Callable[[], bool]) -> BlobTerms:
        self.asked.append("terms")
        return TERMS

    def upload(self, blobs: Sequence[tuple[Reference, bytes]], is_wanted: Callable[[], bool]) -> None:
        self.asked.append(f"upload {len(blobs)}")
        self.stored |= {reference.digest: data for reference, data in blobs}

    def download(self, reference: Reference, is_wanted: Callable[[], bool]) -> bytes:
        self.asked.append("download")
        return self.stored[reference.digest]

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return open_blob_cache(BlobCacheConfig(tmp_path, 100_000))


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- out --------------------------------------------------------------------------------------------------------


def test_blob_2_values_above_the_threshold_are_uploaded_once_and_referred_to() -> None:
    shelf = Shelf()
    sent = Blobs(shelf, None).offload([SMALL, LARGE, b"", LARGE, OTHER])
    assert sent == [SMALL, make_reference(LARGE), b"", make_reference(LARGE), make_reference(OTHER)]
    assert shelf.asked == ["terms", "upload 2"]


def test_blob_2_what_is_small_as_a_whole_needs_no_question() -> None:
    shelf = Shelf()
    blobs = Blobs(shelf, None)
    assert blobs.offload([SMALL] * 3) == [SMALL] * 3
    assert blobs.offload([]) == []
    assert shelf.asked == []
    assert blobs.may_offload(2_000)
    blobs.offload([b"z" * 2_000])
    assert not blobs.may_offload(4_096)
    assert shelf.asked == ["terms"]


def test_lim_1_what_the_server_does_not_take_is_refused_before_anything_is_sent() -> None:
    shelf = Shelf()
    with pytest.raises(ValueTooLargeError) as raised:
        Blobs(shelf, None).offload([LARGE, b"x" * 10_001])
    assert (raised.value.size, raised.value.limit) == (10_001, 10_000)
    assert shelf.asked == ["terms"]


# ---- in ---------------------------------------------------------------------------------------------------------


def test_blob_2_a_reference_is_loaded_and_anything_else_is_itself() -> None:
    shelf = Shelf()
    blobs = Blobs(shelf, None)
    [reference] = blobs.offload([LARGE])
    assert blobs.load(reference) == LARGE
    assert blobs.load(SMALL) == SMALL
    assert shelf.asked == ["terms", "upload 1", "download"]


def test_blob_2_bytes_that_are_not_what_was_asked_for_are_refused(cache: BlobCache) -> None:
    """Neither are they cached."""
    shelf = Shelf()
    blobs = Blobs(shelf, cache)
    shelf.stored[hashlib.sha256(LARGE).digest()] = OTHER
    with pytest.raises(DexServiceError) as raised:
        blobs.load(make_reference(LARGE))
    assert (raised.value.code, raised.value.sub_status) == ("DATA_LOSS", "BLOB_MISMATCH")
    assert cache.get(name_of(LARGE)) is None
    cache.close()


def test_blob_5_what_was_sent_or_fetched_is_not_fetched_again(cache: BlobCache) -> None:
    shelf = Shelf()
    blobs = Blobs(shelf, cache)
    [sent] = blobs.offload([LARGE])
    shelf.stored[hashlib.sha256(OTHER).digest()] = OTHER
    for _ in range(2):
        assert blobs.load(sent) == LARGE
        assert blobs.load(make_reference(OTHER)) == OTHER
    assert shelf.asked.count("download") == 1
    cache.close()


def test_blob_5_a_cache_that_gives_other_bytes_is_corrected(cache: BlobCache) -> None:
    shelf = Shelf()
    blobs = Blobs(shelf, cache)
    [reference] = blobs.offload([LARGE])
    cache.put(name_of(LARGE), OTHER)
    assert blobs.load(reference) == LARGE
    assert cache.get(name_of(LARGE)) == LARGE
    cache.close()


def test_blob_5_a_full_cache_only_costs_time(tmp_path: Path) -> None:
    tiny = open_blob_cache(BlobCacheConfig(tmp_path, 10))
    shelf = Shelf()
    blobs = Blobs(shelf, tiny)
    [reference] = blobs.offload([LARGE])
    assert blobs.load(reference) == blobs.load(reference) == LARGE
    tiny.close()


# ---- results of handlers ------------------------------------------------------------------------------------------


def test_blob_2_every_value_of_a_result_can_be_moved_out_of_it() -> None:
    child = frames.SubFlow("Child", frames.Movement("S", b"1", has_wait_for=False), (("a", b"2"),))
    output = frames.Output(
        1,
        frames.Token("r", "A-1", 0, 1, 1),
        wait=frames.Wait(frames.WAIT_ALL_OF, sub_flows=(child,)),
        decision=frames.Decision(0, (frames.Movement("S", b"3", has_wait_for=False),), b"4"),
        writes=(("a", b"5"), ("b", None)),
        publications=(("c", b"6"),),
        locals=(("l", b"7"),),
        recorded=(("e", b"8"),),
        output=b"9",
        next_steps=(frames.Movement("S", b"10", has_wait_for=False),),
    )
    values = values_of(output)
    assert sorted(values, key=int) == [str(number).encode() for number in range(1, 11)]
    assert with_values(output, values) == output
    changed = with_values(output, [value + b"!" for value in values])
    assert values_of(changed) == [value + b"!" for value in values]
    assert changed.writes[1] == ("b", None)
    bare = frames.Output(1, output.token, wait=frames.Wait(frames.WAIT_SKIP))
    assert with_values(bare, values_of(bare)) == bare


# ---- requests of clients ------------------------------------------------------------------------------------------


def to_request(body: bytes) -> Request[bytes]:
    return Request("publish", "Publish", body, lambda reply: reply)


def publication(*values: bytes) -> pb.PublishRequest:
    return pb.PublishRequest(flow_id="f", channel="c", values=values)


def test_blob_2_a_request_with_small_values_is_asked_at_once() -> None:
    asked = ask_carrying(publication(SMALL), to_request)
    turn = next(asked)
    assert isinstance(turn, Ask)
    assert turn.body == publication(SMALL).SerializeToString()


@pytest.mark.parametrize(
    ("message", "values", "expected"),
    [
        (publication(SMALL, LARGE), [SMALL, LARGE], publication(SMALL, b"ref")),
        (pb.InvokeRpcRequest(input=LARGE), [LARGE], pb.InvokeRpcRequest(input=b"ref")),
        (pb.SetAttributeRequest(key="k", value=LARGE), [LARGE], pb.SetAttributeRequest(key="k", value=b"ref")),
        (
            pb.StartFlowRequest(input=SMALL, attributes=[pb.AttributeValue(key="k", value=LARGE)]),
            [SMALL, LARGE],
            pb.StartFlowRequest(input=SMALL, attributes=[pb.AttributeValue(key="k", value=b"ref")]),
        ),
    ],
)
def test_blob_2_large_values_leave_before_the_request(
    message: pb.PublishRequest, values: list[bytes], expected: pb.PublishRequest
) -> None:
    asked = ask_carrying(message, to_request)
    turn = next(asked)
    assert isinstance(turn, Offload)
    assert list(turn.values) == values
    turn = asked.send([value if value == SMALL else b"ref" for value in values])
    assert isinstance(turn, Ask)
    assert turn.body == expected.SerializeToString()


def test_blob_3_an_upload_that_the_server_has_forgotten_is_repeated_once() -> None:
    forgotten = RemoteStatus("INVALID_ARGUMENT", "forgotten", "BLOB_NOT_UPLOADED")
    asked = ask_carrying(publication(LARGE), to_request)
    for _ in range(2):
        assert isinstance(next(asked) if _ == 0 else asked.send(forgotten), Offload)
        assert isinstance(asked.send([b"ref"]), Ask)
    with pytest.raises(DexServiceError):
        asked.send(forgotten)


def test_blob_2_an_answer_that_is_a_reference_is_loaded() -> None:
    reference = make_reference(LARGE)
    asked = load(reference)
    assert next(asked) == Load(reference)
    with pytest.raises(StopIteration) as ended:
        asked.send(LARGE)
    assert ended.value.value == LARGE
    with pytest.raises(StopIteration) as ended:
        next(load(SMALL))
    assert ended.value.value == SMALL
    assert read_reference(reference).size == len(LARGE)
