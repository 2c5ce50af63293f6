"""Which devices train and how they share the work: DDP, fully sharded, torchrun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from ..config import Config
from ..errors import InvalidArgumentError
from ._module import ShareOut


@dataclass(frozen=True)
class Devices:
    """Devices of each node, and nodes."""

    num_devices: int
    num_nodes: int

    @property
    def world_size(self) -> int:
        """Processes in all."""
        return self.num_devices * self.num_nodes


def devices_of(config: Config, num_devices: int | None, num_nodes: int | None) -> Devices:
    """Arguments, else what torchrun says, else the configuration.

    Raises
    ------
    InvalidArgumentError
        torchrun started another number of processes than was asked for.
    """
    asked = {
        "num_devices": _asked(config, "num_devices", num_devices),
        "num_nodes": _asked(config, "num_nodes", num_nodes),
    }
    started = _of_torchrun()
    for name, number in asked.items():
        if started is not None and number is not None and number != started[name]:
            flag = "--nproc_per_node" if name == "num_devices" else "--nnodes"
            raise InvalidArgumentError(
                f"{name} is {number}, and torchrun started {started[name]} ({flag}): give both the "
                "same number, or leave this one out"
            )
    chosen = started or {name: number or 1 for name, number in asked.items()}
    return Devices(**chosen)


def _asked(config: Config, name: str, argument: int | None) -> int | None:
    if argument is not None:
        return argument
    key = f"training.{name}"
    number: int | None = config[key] if key in config.given else None
    return number


def _of_torchrun() -> dict[str, int] | None:
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    return {"num_devices": local, "num_nodes": world // local}


def is_first_rank() -> bool:
    """Whether this process is the one that writes, before any group is there."""
    names = ("RANK", "LOCAL_RANK", "NODE_RANK")
    given = [int(os.environ[name]) for name in names if name in os.environ]
    return not any(given[:1] if "RANK" in os.environ else given)


def is_fully_sharded(config: Config) -> bool:
    """Whether parameters are shared out."""
    training = config.training
    return bool(training.fsdp.enabled or training.strategy == "fsdp")


def strategy_of(config: Config, devices: Devices) -> Any:
    """What Lightning's ``Trainer(strategy=...)`` takes."""
    if is_fully_sharded(config):
        return _Sharded(devices.world_size, config.training.fsdp.cpu_offload)
    return DDPStrategy() if devices.world_size > 1 else "auto"


class _Sharded(ModelParallelStrategy):
    """Fully sharded data parallel (torch's ``fully_shard``); checkpoints are one file of rank 0."""

    def __init__(self, world_size: int, is_offloaded: bool) -> None:
        super().__init__(
            data_parallel_size=world_size,
            tensor_parallel_size=1,
            save_distributed_checkpoint=False,
            # Norms of gradients are summed where the parameters are.
            process_group_backend="cpu:gloo,cuda:nccl"
            if is_offloaded and torch.cuda.is_available()
            else None,
        )
        self._is_offloaded = is_offloaded

    def model_to_device(self) -> None:
        """Lightning's hook; offloaded parameters stay in the memory of the host."""
        if not self._is_offloaded:
            super().model_to_device()


def share_out_of(config: Config) -> ShareOut | None:
    """How a module's parameters are shared out, by ``training.fsdp``."""
    if not is_fully_sharded(config):
        return None
    chosen = config.training.fsdp
    return _ShareOut(chosen.sharding_strategy, chosen.cpu_offload)


@dataclass(frozen=True)
class _ShareOut:
    sharding_strategy: str
    cpu_offload: bool

    def __call__(self, blocks: list[nn.Module], whole: nn.Module, mesh: DeviceMesh | None) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

        assert mesh is not None  # the strategy has made it
        ranks = mesh["data_parallel"]
        if self.sharding_strategy == "NO_SHARD":
            # Every rank has all; gradients alone are averaged.
            ranks = init_device_mesh(
                mesh.device_type, (ranks.size(), 1), mesh_dim_names=("replicate", "shard")
            )
        options: dict[str, Any] = {
            "mesh": ranks,
            "reshard_after_forward": self.sharding_strategy == "FULL_SHARD",
            "offload_policy": CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
            if self.cpu_offload
            else OffloadPolicy(),
        }
        for block in blocks:
            fully_shard(block, **options)
        fully_shard(whole, **options)
