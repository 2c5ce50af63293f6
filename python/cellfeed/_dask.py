"""Shards written by the workers of a Dask cluster, from the process that plans them."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

from ._arguments import is_url, parse_memory_budget, parse_threads, shown
from ._extras import with_extra
from ._progress import Progress, as_progress_callback
from .errors import CellfeedError, ClusterError, InvalidTypeError, NotFoundError
from .shard_plan import ShardPlan, WrittenShard, forget, require_same_version, write_part

if TYPE_CHECKING:
    from dask.distributed import Client, Future

Result = TypeVar("Result")

_LOOK_SECONDS = 0.1
_EVENT_SECONDS = 0.5
_CONNECT_SECONDS = 5


def require_dask() -> None:
    """Name the extra where Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError as error:
        raise with_extra(error) from error


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler at an address such as ``tcp://10.0.0.1:8786``."""
    require_dask()
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r} within {_CONNECT_SECONDS} s: {error}; start "
            f"one with `dask scheduler`, and give the address that it prints"
        ) from error
    with client:
        yield client


def check_client(client: object) -> None:
    """Refuse what is no client that waits for its results."""
    require_dask()
    from distributed import Client

    if not isinstance(client, Client):
        raise InvalidTypeError(
            f"client must be a dask.distributed.Client, not {shown(client)}; "
            f"Client('tcp://HOST:8786') connects to a scheduler"
        )
    if client.asynchronous:
        raise InvalidTypeError("client is asynchronous: give one made with asynchronous=False")


def write_with_dask(
    plan: ShardPlan[Result],
    client: Client,
    *,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    progress: Progress = None,
) -> Result:
    """Write the shards of a plan by the workers of a Dask cluster, and finish it.

    Parameters
    ----------
    plan
        What :func:`plan_shards` or :func:`plan_preprocess` gave. It is closed at the end, also
        after an error: shards that are finished stay, and ``resume=True`` continues.
    client
        A :class:`dask.distributed.Client`. All workers see the inputs and the folder under the
        same paths.
    threads, memory_budget
        Of each worker, as for :func:`cellfeed.convert_to_shards`.
    progress
        As for :func:`cellfeed.convert_to_shards`.

    Returns
    -------
    ShardingResult or PreprocessResult
        As :func:`cellfeed.convert_to_shards` or :func:`cellfeed.preprocess` give it, with the same
        bytes in the folder.

    Raises
    ------
    ClusterError
        The scheduler went away, or a worker ended or has another version of cellfeed.
    """
    check_client(client)
    with plan, contextlib.ExitStack() as stack:
        if plan.missing:
            _Run(plan, client, threads, memory_budget, progress, stack).write()
            client.run(forget, plan, on_error="ignore")
        return plan._finish()


class _Run:
    """The tasks of one plan on one cluster."""

    def __init__(
        self,
        plan: ShardPlan[Any],
        client: Client,
        threads: int | None,
        memory_budget: int | str | None,
        progress: Progress,
        stack: contextlib.ExitStack,
    ) -> None:
        self._plan = plan
        self._client = client
        self._resources = (
            parse_threads(threads),
            0 if memory_budget is None else parse_memory_budget(memory_budget),
        )
        self._progress = as_progress_callback(progress, "cells")
        self._stack = stack
        self._name = f"cellfeed-{uuid.uuid4().hex[:12]}"
        self._begun = time.monotonic()
        self._under_way: dict[int, int] = {}  # cells of a part that is being written, by its first
        self._cells_before = plan.n_cells - sum(map(plan.cells_of, plan.missing))
        self._cells_done = self._cells_before

    def write(self) -> None:
        with self._named_losses():
            _check_workers(self._plan, self._client)
            self._listen()
            self._take(self._submit())

    def _submit(self) -> dict[Future, list[int]]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        n_threads = sum(worker["nthreads"] for worker in workers)
        # A task of its own: sent to each worker once, and made again where it is lost.
        plan = self._client.submit(_given, self._plan, key=f"{self._name}-plan", pure=False)
        futures = {
            self._client.submit(
                _write, plan, part, self._name, self._resources, pure=False,
                key=f"{self._name}-shard-{part[0]}",
            ): part
            for part in self._plan.parts(max(1, n_threads))
        }  # fmt: skip
        self._stack.callback(self._end, [*futures, plan])
        return futures

    def _end(self, futures: list[Future]) -> None:
        # Of a scheduler that went away, nothing is left to end.
        with contextlib.suppress(Exception):
            self._client.cancel(futures)

    def _take(self, futures: dict[Future, list[int]]) -> None:
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        left = len(futures)
        while left:
            try:
                future = done.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._show()
                continue
            left -= 1
            self._add(futures[future], self._result_of(future))
            self._show()

    def _result_of(self, future: Future) -> list[WrittenShard]:
        if future.status in ("cancelled", "lost"):
            raise ClusterError("the scheduler went away, or its tasks were cancelled")
        written: list[WrittenShard] = future.result()
        return written

    def _add(self, part: list[int], written: list[WrittenShard]) -> None:
        self._under_way.pop(part[0], None)
        for shard in written:
            self._plan._add(shard)
            self._cells_done += shard.n_cells

    def _listen(self) -> None:
        def heard(event: tuple[float, dict[str, int]]) -> None:
            said = event[1]
            self._under_way[said["part"]] = said["done"]

        if self._progress is None:
            return
        self._client.subscribe_topic(self._name, heard)

        def stop() -> None:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(self._name)

        self._stack.callback(stop)

    def _show(self) -> None:
        if self._progress is None:
            return
        done = min(self._plan.n_cells, self._cells_done + sum(dict(self._under_way).values()))
        seconds = time.monotonic() - self._begun
        rate = (done - self._cells_before) / seconds if seconds > 0 else 0.0
        self._progress("writing shards", done, self._plan.n_cells, rate)

    @contextlib.contextmanager
    def _named_losses(self) -> Iterator[None]:
        """What Dask says of workers and schedulers, in our words."""
        from distributed import CancelledError as TasksCancelled
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other while they wrote "
                f"the same shard, the last one at {error.last_worker.address}: give them more "
                f"memory, or a smaller memory_budget; {self._plan.finished_text}"
            ) from error
        except ClusterError as error:
            raise ClusterError(f"{error}; {self._plan.finished_text}") from error
        except (TasksCancelled, CommClosedError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler went away: {error}; {self._plan.finished_text}"
            ) from error
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"a worker has no {error.name}: install cellfeed there; {self._plan.finished_text}"
            ) from error


def _check_workers(plan: ShardPlan[Any], client: Client) -> None:
    """Name a worker without this cellfeed, or one that does not see the folders."""
    ours = metadata.version("cellfeed")
    for worker, version in _said(client, metadata.version, "cellfeed"):
        if isinstance(version, ImportError):
            raise ClusterError(f"worker {worker} has no cellfeed: pip install 'cellfeed=={ours}'")
        if isinstance(version, Exception):
            raise version
        if version != ours:
            raise ClusterError(
                f"worker {worker} has cellfeed {version}, and this process has {ours}: install the "
                f"same version everywhere"
            )
    for _, error in _said(client, _look, plan):
        if isinstance(error, Exception):
            raise error


def _said(client: Client, function: Callable[..., object], *arguments: object) -> Iterator[Any]:
    """What each worker answers, errors too; of those that die meanwhile nothing."""
    for worker, said in sorted(client.run(function, *arguments, on_error="return").items()):
        is_lost = isinstance(said, OSError) and not isinstance(said, CellfeedError)
        if is_lost and _is_gone(client, worker):
            continue
        yield worker, said


def _is_gone(client: Client, worker: str) -> bool:
    """Whether the scheduler gives a worker up, which it does soon after it died."""
    for _ in range(50):
        if worker not in client.nthreads():
            return True
        time.sleep(0.1)
    return False


def _given(plan: ShardPlan[Any]) -> ShardPlan[Any]:
    return plan


def _look(plan: ShardPlan[Any], dask_worker: Any) -> None:
    """Of a worker: whether it sees what it will read, and where it will write."""
    with _named(dask_worker):
        require_same_version(plan)
        for what, path in (("the folder of the shards", plan.path), *(
            ("an input", path) for path in plan.paths
        )):  # fmt: skip
            # Of a bucket, the task says what it does not find.
            if not is_url(path) and not os.path.exists(path):
                raise NotFoundError(
                    f"{path}: {what} is not there for this process; all workers and the client "
                    f"need it under the same path"
                )


def _write(
    plan: ShardPlan[Any], part: list[int], topic: str, resources: tuple[int, int]
) -> list[WrittenShard]:
    """Of a worker: one task."""
    from distributed import get_worker

    worker = get_worker()
    n_threads = worker.state.nthreads
    last = 0.0

    def report(phase: str, done: int, total: int, rate: float) -> None:
        nonlocal last
        if time.monotonic() - last < _EVENT_SECONDS:
            return
        last = time.monotonic()
        if plan._is_shuffled:  # two passes
            done = (done if phase == "shuffling cells" else total + done) // 2
        worker.log_event(topic, {"part": part[0], "done": done})

    with _named(worker):
        return write_part(plan, part, resources[0] or n_threads, resources[1], n_threads, report)


@contextlib.contextmanager
def _named(worker: Any) -> Iterator[None]:
    """An error says which worker it is of."""
    try:
        yield
    except CellfeedError as error:
        named = type(error)(f"worker {worker.address} on {socket.gethostname()}: {error}")
        named.path = error.path
        raise named from None
