"""Members of enumerations under names of their own.

In Python 3.11 asking an enumeration for a member costs as much as a call of a function. These are asked for several
times with every Step, with every Flow, or with every run that comes back from the log; those of StepPhase and CallStage
stand beside their enumerations.
"""

from typing import Final

from dexd.core.values import ConditionKind, DecisionKind, FlowStatus, Method

WAIT_FOR: Final = Method.WAIT_FOR
EXECUTE: Final = Method.EXECUTE
RPC: Final = Method.RPC

TIMER: Final = ConditionKind.TIMER

GO_TO: Final = DecisionKind.GO_TO
GRACEFUL_COMPLETE: Final = DecisionKind.GRACEFUL_COMPLETE
COMPLETED: Final = FlowStatus.COMPLETED
FAILED: Final = FlowStatus.FAILED
CONTINUED_AS_NEW: Final = FlowStatus.CONTINUED_AS_NEW

FORCE_COMPLETE_IF_CHANNELS_EMPTY: Final = DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY
