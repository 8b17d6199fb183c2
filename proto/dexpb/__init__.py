"""What travels between server and SDK: the only package that both `dexd` and `dexsdk` import."""
