"""What a session of Kedro is known by."""

from secrets import token_hex
from typing import Any

from kedro.framework.session.store import BaseSessionStore


class SessionOfItsOwn(BaseSessionStore):
    """Makes the name of a run, which is the version of what it writes, unlike any other's.

    Kedro's is the millisecond in which the run has begun, as others in the same folder or at the
    same Dask scheduler may have.
    """

    def __init__(self, path: str, session_id: str) -> None:
        super().__init__(path, f"{session_id}-{token_hex(2)}")

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep a value; of the session's name, the one that it was given here."""
        super().__setitem__(key, self._session_id if key == "session_id" else value)
