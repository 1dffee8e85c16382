"""Runs kedro commands, a JSON list on stdin, one after the other; writes what came of each."""

import contextlib
import io
import json
import logging
import sys
import traceback


def outcome(arguments):
    import mlflow
    from kedro.framework.cli.cli import main

    sys.argv = ["kedro", *arguments]
    output, errors = io.StringIO(), io.StringIO()
    # Kedro's own handlers write to the terminal they began with.
    handler = logging.StreamHandler(output)
    logging.getLogger().addHandler(handler)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        except Exception:
            traceback.print_exc()
            code = 1
    logging.getLogger().removeHandler(handler)
    # As the end of a process would.
    while mlflow.active_run():
        mlflow.end_run("FAILED" if code else "FINISHED")
    return code or 0, output.getvalue(), errors.getvalue()


if __name__ == "__main__":
    print(json.dumps([outcome(arguments) for arguments in json.load(sys.stdin)]))
