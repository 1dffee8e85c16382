"""Runs kedro commands, a JSON list on stdin, one after the other; writes what came of each."""

import contextlib
import io
import json
import sys
import traceback


def outcome(arguments):
    import mlflow
    from kedro.framework.cli.cli import main

    sys.argv = ["kedro", *arguments]
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        except Exception:
            traceback.print_exc()
            code = 1
    # As the end of a process would.
    while mlflow.active_run():
        mlflow.end_run("FAILED")
    return code or 0, output.getvalue(), errors.getvalue()


if __name__ == "__main__":
    print(json.dumps([outcome(arguments) for arguments in json.load(sys.stdin)]))
