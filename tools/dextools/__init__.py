"""The operator's toolbox behind the command `dex`: a client of the server like any other, and offline log tools.

Nothing in `dexd` or `dexsdk` imports from here.
"""
