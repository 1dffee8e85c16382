"""The `conle` command of an installed package: `kedro run` without the source tree."""

import sys
from pathlib import Path
from typing import Any

from kedro.framework.cli.utils import find_run_command
from kedro.framework.project import configure_project


def main(*arguments: Any, **options: Any) -> Any:
    """Run the project's pipelines."""
    package = Path(__file__).parent.name
    configure_project(package)
    interactive = hasattr(sys, "ps1")
    run = find_run_command(package)
    return run(*arguments, **options, standalone_mode=not interactive)


if __name__ == "__main__":
    main()
