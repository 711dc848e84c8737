"""Optuna's storage of experiments: a SQLite file, a database server, or the memory of this process.

If a database becomes unavailable, every operation is repeated for a while.
"""

import functools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IN_MEMORY = "memory"
"""Storage in the memory of one process. It needs no SQLAlchemy."""
HEARTBEAT = 30
"""Seconds between two heartbeats of a worker."""
SILENCES = 4
"""Number of heartbeats that a worker may miss before its trial is given to another."""
PATIENCE = 120.0
"""Seconds for which an operation is repeated when the database is unavailable."""


@dataclass(frozen=True)
class Storage:
    """Where the workers of an experiment share its trials."""

    url: str
    patience: float = PATIENCE
    heartbeat: int = HEARTBEAT

    def __post_init__(self) -> None:
        if not 0 <= self.patience < math.inf:
            raise ValueError(f"patience must be finite and not below 0, got {self.patience}")

    @property
    def grace(self) -> int:
        """Seconds without a sign of life after which a worker counts as dead."""
        return SILENCES * self.heartbeat


def hide_password(url: str) -> str:
    """Return the URL of a storage without its password."""
    if url == IN_MEMORY:
        return url
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        raise ValueError(
            f"{url!r} is not a storage: give a URL such as sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        ) from None


def open_storage(storage: Storage) -> Any:
    """Open a storage and create its tables if they are missing."""
    import optuna

    if storage.url == IN_MEMORY:
        return optuna.storages.InMemoryStorage()
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError

    name, url = hide_password(storage.url), make_url(storage.url)
    kind = url.get_backend_name()
    # Workers that share a file wait for each other; a server that does not answer is an error.
    connect_args = {"sqlite": {"timeout": 60}, "postgresql": {"connect_timeout": 10}}.get(kind, {})
    attempts_left = 5
    while True:
        try:
            if kind == "sqlite" and url.database:
                Path(url.database).parent.mkdir(parents=True, exist_ok=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                opened = _patient_storage()(
                    storage.url,
                    engine_kwargs={"connect_args": connect_args, "pool_pre_ping": True},
                    heartbeat_interval=storage.heartbeat,
                    grace_period=storage.grace,
                )
            opened.patience = storage.patience
            return opened
        except ImportError as error:
            package = getattr(error.__cause__, "name", None) or "of its driver"
            requirement = {"psycopg": '"psycopg[binary]"', "MySQLdb": "mysqlclient"}.get(package, package)
            raise ImportError(f"the storage {name} needs the package {package}: pip install {requirement}") from None
        except (SQLAlchemyError, OSError) as error:
            attempts_left -= 1
            # Another worker that starts at the same time may be creating the tables.
            if not (isinstance(error, IntegrityError) or _is_race_for_tables(error)) or not attempts_left:
                raise OSError(
                    f"cannot open the storage {name} ({_describe_reason(error)}): fix it or choose another"
                ) from None
            time.sleep(0.5)


def exists(storage: Storage) -> bool:
    """Return whether a storage may exist, without creating a SQLite file."""
    from sqlalchemy.engine import make_url

    url = make_url(storage.url) if storage.url != IN_MEMORY else None
    if url is not None and url.get_backend_name() == "sqlite" and url.database:
        return Path(url.database).exists()
    return url is not None


def explain_failure(error: BaseException, url: str) -> OSError | None:
    """Return an error that names the storage, if it is the cause of an error."""
    if url == IN_MEMORY:
        return None
    from sqlalchemy.exc import SQLAlchemyError

    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, SQLAlchemyError):
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
    if chain is None:
        return None
    name = hide_password(url)
    return OSError(
        f"the storage {name} failed ({_describe_reason(chain)}): fix it, then run the same command to continue"
    )


def _describe_reason(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).strip().split("\n")[0]


def _is_race_for_tables(error: BaseException) -> bool:
    """Return whether two processes created the same table at once. Databases have no common code for this error."""
    return "already exists" in _describe_reason(error)


@functools.cache
def _patient_storage() -> type:
    """Return a storage class that repeats its operations. It is created when needed, since Optuna is an extra."""
    from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
    from optuna.storages import RDBStorage
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    class PatientStorage(RDBStorage):
        patience = 0.0

        def set_trial_state_values(self, trial_id: int, state: Any, values: Any = None) -> bool:
            session = self.scoped_session()
            if session.get_bind().dialect.name == "sqlite":
                # Optuna relies on SELECT ... FOR UPDATE, which SQLite ignores: without this lock, two workers that read
                # at the same moment that a trial is waiting would both take it.
                try:
                    session.execute(text("BEGIN IMMEDIATE"))
                except DBAPIError:
                    session.rollback()
                    raise
            return super().set_trial_state_values(trial_id, state, values)

    def repeat(name: str) -> Callable[..., Any]:
        original = getattr(PatientStorage, name)

        @functools.wraps(original)
        def operation(self: PatientStorage, *arguments: Any, **options: Any) -> Any:
            ends, pause, repeated = time.monotonic() + self.patience, 0.1, False
            while True:
                try:
                    return original(self, *arguments, **options)
                except UpdateFinishedTrialError:
                    if repeated:  # the first attempt succeeded, but its answer was lost
                        return True
                    raise
                except (StorageInternalError, DBAPIError):
                    if time.monotonic() + pause > ends:
                        raise
                    time.sleep(pause)
                    pause, repeated = min(2 * pause, 5.0), True

        return operation

    for name in OPERATIONS:
        setattr(PatientStorage, name, repeat(name))
    return PatientStorage


OPERATIONS = (
    "create_new_study",
    "get_study_directions",
    "get_study_id_from_name",
    "get_study_name_from_id",
    "get_study_system_attrs",
    "get_study_user_attrs",
    "get_trial",
    "record_heartbeat",
    "set_study_system_attr",
    "set_study_user_attr",
    "set_trial_intermediate_value",
    "set_trial_state_values",
    "set_trial_system_attr",
    "set_trial_user_attr",
    "_create_new_trial",
    "_get_stale_trial_ids",
    "_get_trials",
    "_set_trial_param",
)
"""Operations of Optuna's storage that a worker uses."""
