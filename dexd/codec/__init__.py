"""Pure conversions between what travels or is stored and what the core speaks. No rules, no clocks, no IO [ARCH-12].

Proto messages and session frames end here: `dexd.api` hands them in, `dexd.engine` and `dexd.core` never see them.
"""
