"""Settings of one execution, and how they change [CFG-1..3]."""

from dexd.core.events import FlowConfigUpdated
from dexd.core.outcome import FlowConfigAccepted
from dexd.core.rejections import Code
from dexd.core.terms import ActiveStepSearchMode, FlowConfig
from dexd.core.values import StepDurability
from tests.support.builders import closed, digest, plan, record, scheduled, start, started, terms, update_config
from tests.support.given import given

ASYNC = FlowConfig(step_durability=StepDurability.ASYNC)
RECORDS = FlowConfig(record_rpc_io=True)


def test_cfg_1_start_sets_what_it_names() -> None:
    before = given().after(start(step=plan(), terms=terms(config=ASYNC)))
    assert before.run().config == ASYNC


def test_cfg_2_update_merges_the_set_fields_and_is_in_history() -> None:
    before = given(started(terms=terms(config=ASYNC)), scheduled())
    before.when(update_config(RECORDS)).then(
        events=[FlowConfigUpdated(RECORDS, record())], reply=FlowConfigAccepted(), next_deadline=...
    )
    assert before.run().config == FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=True)
    before.after(update_config(FlowConfig(record_rpc_io=False), request_id="r2"))
    assert before.run().config == FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=False)


def test_cfg_2_flow_without_settings_takes_the_first_ones() -> None:
    mode = FlowConfig(active_step_search_mode=ActiveStepSearchMode.DISABLED, continue_as_new_threshold=0)
    before = given(started()).after(update_config(mode))
    assert before.run().config == mode


def test_cfg_2_nothing_set_changes_nothing() -> None:
    assert ASYNC.overridden_by(FlowConfig()) is ASYNC


def test_gen_8_repeat_is_answered_and_applies_nothing() -> None:
    """[RPC-12]"""
    before = given(started()).after(update_config(RECORDS))
    before.when(update_config(RECORDS)).then(reply=FlowConfigAccepted())
    other = update_config(ASYNC)
    conflict = type(other)(other.flow_id, None, ASYNC, other.request_id, digest("other"))
    before.when(conflict).then_rejected(Code.REQUEST_CONFLICT)


def test_waitapi_7_needs_an_active_flow() -> None:
    given(started(), closed()).when(update_config(RECORDS)).then_rejected(Code.FLOW_NOT_ACTIVE)
    given().when(update_config(RECORDS)).then_rejected(Code.FLOW_NOT_FOUND)
