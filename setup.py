"""Package list of the one distribution; everything else is declared in pyproject.toml.

The import packages live under several roots (`proto/`, `tools/`, the top level) and the SQL migrations outside any
package, a layout that the declarative `packages.find` table cannot express. Finding the packages here means that a new
sub-package ships without anybody having to list it.
"""

from setuptools import find_packages, setup


def packages_of(name: str, *, root: str) -> list[str]:
    """Return the import package `name` below the folder `root` with all its sub-packages."""
    return list(find_packages(root, include=[name, f"{name}.*"]))


setup(
    packages=[
        *packages_of("dexd", root="."),
        *packages_of("dexsdk", root="."),
        *packages_of("dexpb", root="proto"),
        *packages_of("dextools", root="tools"),
        "dexd.migrations",
    ],
    package_dir={
        "dexpb": "proto/dexpb",
        "dextools": "tools/dextools",
        "dexd.migrations": "migrations",
    },
)
