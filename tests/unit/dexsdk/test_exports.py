"""The package exports its surface and nothing else [SDK-1]."""

import inspect

import dexsdk


def test_sdk_1_every_exported_name_exists_and_every_public_name_is_exported() -> None:
    public = {name for name, value in vars(dexsdk).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(dexsdk.__all__)


def test_sdk_1_every_exported_class_and_function_says_what_it_is() -> None:
    silent = [
        name
        for name in dexsdk.__all__
        if (inspect.isclass(value := getattr(dexsdk, name)) or inspect.isfunction(value)) and not value.__doc__
    ]
    assert silent == []
