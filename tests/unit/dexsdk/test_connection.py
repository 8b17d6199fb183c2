"""Options that would be ignored are refused: a program meant for one server must not write to another."""

from typing import Any

import pytest

from dexsdk import AsyncClient, AsyncWorker, Client, ClientOptions, PullWorkerOptions, Registry, Worker, WorkerOptions
from tests.unit.dexsdk.flows import ScriptedFlow

ELSEWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("made", [Client, AsyncClient, Worker, AsyncWorker])
@pytest.mark.parametrize("options", [ClientOptions(ELSEWHERE), WorkerOptions(ELSEWHERE), PullWorkerOptions()])
def test_options_in_the_place_of_the_blob_cache_are_refused(made: Any, options: object) -> None:
    with pytest.raises(TypeError, match=rf"write options={type(options).__name__}\("):
        made(Registry([ScriptedFlow()]), options)


@pytest.mark.parametrize(
    ("made", "options"),
    [(Client, WorkerOptions()), (AsyncClient, WorkerOptions()), (Worker, ClientOptions()), (AsyncWorker, ELSEWHERE)],
)
def test_options_of_another_kind_are_refused(made: Any, options: object) -> None:
    with pytest.raises(TypeError, match=r"options are \w+, \w+ are needed"):
        made(Registry([ScriptedFlow()]), None, options)


def test_ready_2_a_wait_that_runs_out_says_what_is_missing() -> None:
    worker = Worker(Registry([ScriptedFlow()]), options=WorkerOptions(pull=PullWorkerOptions(app_worker_id="w-1")))
    with pytest.raises(TimeoutError, match=r"queues 'w-1', 'ScriptedFlow'; the worker was not started"):
        worker.wait_pull_registered(timeout=0)
