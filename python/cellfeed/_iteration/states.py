"""States of a schedule as small JSON-able data, and what may be wrong with them."""

from __future__ import annotations

from typing import Any, Required, TypedDict

from .. import _core
from .._arguments import as_int, shown
from ..errors import InvalidArgumentError, InvalidTypeError
from .epochs import Position
from .worker import Worker

STATE_VERSION = 1
# Epochs count on from what is given, in 64 bits.
MAX_EPOCH = 2**62
_ORDER_KEYS = ("order_step_samples", "order_fetch_samples", "order_batch_size")
_PARTITIONS = ("interleave", "group")
_KEYS = ("seed", "epoch", "consumed", *_ORDER_KEYS, "partition", "collection", "strategy")


def make_position(plan: _core.Plan, seed: int, epoch: int, consumed: int) -> Position:
    """The position in the epoch of a plan."""
    return Position(
        seed, epoch, consumed, plan.order_step_samples, plan.order_fetch_samples,
        plan.order_batch_size, _PARTITIONS.index(plan.partition),
    )  # fmt: skip


def place_text(position: Position) -> str:
    """All that a state says, in words: ranks whose texts differ would go on elsewhere."""
    return (
        f"that of epoch {position.epoch} after {position.consumed} samples, of seed "
        f"{position.seed} and batches of {position.order_batch_size} samples "
        f"({position.order_step_samples} on all ranks, {position.order_fetch_samples} read "
        f"together, partition {partition_of(position)!r})"
    )


class PlanOptions(TypedDict, total=False):
    """What of a plan depends on where an epoch is continued."""

    partition: Required[str]
    consumed: int
    order_step_samples: int
    order_fetch_samples: int
    order_batch_size: int


def plan_options(position: Position) -> PlanOptions:
    """What makes a plan continue at the position."""
    return {
        "consumed": position.consumed,
        "order_step_samples": position.order_step_samples,
        "order_fetch_samples": position.order_fetch_samples,
        "order_batch_size": position.order_batch_size,
        "partition": partition_of(position),
    }


def partition_of(position: Position) -> str:
    return _PARTITIONS[position.is_group]


def to_state(position: Position, collection: str, strategy: str) -> dict[str, Any]:
    """The state dict of a position."""
    return {
        "version": STATE_VERSION,
        **{key: getattr(position, key) for key in ("seed", "epoch", "consumed", *_ORDER_KEYS)},
        "partition": partition_of(position),
        "collection": collection,
        "strategy": strategy,
    }


def parse_state(state: Any, collection: str, strategy: str) -> Position:
    """The position of a state dict of this collection and strategy."""
    if isinstance(state, str | bytes):
        raise InvalidTypeError(
            "a state is a dict, and this is a text: json.loads or torch.load makes one of it"
        )
    version = state.get("version") if isinstance(state, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version != STATE_VERSION:
        raise InvalidArgumentError(f"not a state of this version of cellfeed: {shown(state)}")
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise InvalidArgumentError(f"the state lacks {', '.join(missing)}: {shown(state)}")
    if state["collection"] != collection:
        raise InvalidArgumentError(
            "the state belongs to another collection: its files, their order, their content or "
            "what is read of them have changed"
        )
    if state["strategy"] != strategy:
        raise InvalidArgumentError(
            "the state belongs to another sampling strategy, or one with other settings"
        )
    if not isinstance(state["partition"], str) or state["partition"] not in _PARTITIONS:
        raise InvalidArgumentError(
            f"partition of the state must be one of {_PARTITIONS}: {shown(state['partition'])}"
        )
    step, fetch, batch = (
        as_int(f"{key} of the state", state[key], 1, 2**62) for key in _ORDER_KEYS
    )
    return Position(
        as_int("seed of the state", state["seed"], 0, 2**63 - 1),
        as_int("epoch of the state", state["epoch"], 0, MAX_EPOCH),
        as_int("consumed of the state", state["consumed"], 0, 2**62),
        step, fetch, batch,
        _PARTITIONS.index(state["partition"]),
    )  # fmt: skip


def next_batch_of_worker(state: dict[str, Any], worker: Worker, step_samples: int) -> int | None:
    """The batch that a worker of a ``StatefulDataLoader`` yields next; None for other states."""
    saved = state.get("worker")
    if saved is None:
        return None
    keys = ("index", "count", "next_batch", "step_samples")
    if not isinstance(saved, dict) or any(key not in saved for key in keys):
        raise InvalidArgumentError(f"the state's worker lacks its numbers: {shown(saved)}")
    index, count, next_batch, samples = (
        as_int(f"worker's {key} of the state", saved[key], 0, 2**62) for key in keys
    )
    if not worker.is_process or (index, count) != (worker.index, worker.count):
        raise InvalidArgumentError(
            f"the state is that of worker {index} of {count} of a StatefulDataLoader: load the "
            "whole state into a StatefulDataLoader with as many workers"
        )
    if samples != step_samples:
        raise InvalidArgumentError(
            "the state of a StatefulDataLoader with workers continues with the same world size and "
            f"batch size only: {samples} samples a step then, {step_samples} now; num_workers=0 "
            "has no such limit"
        )
    return next_batch


def as_epoch(epoch: object) -> int:
    """A number of an epoch."""
    return as_int("epoch", epoch, 0, MAX_EPOCH)
