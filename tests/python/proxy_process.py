"""The fault proxy as a process: for rates, and for clients that hold the GIL as they wait.

    with ProxyProcess(server.address, latency_s=0.03, bytes_per_second=1e9) as proxy:
        ...                                    # proxy.url, and all that a FaultProxy can be asked

The child reads a line of JSON for a question and writes one for the answer; it ends with its input.
"""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterable

from fault_proxy import FaultProxy
from fault_rules import Fault
from proxy_record import Record, Seen


class ProxyProcess(Record):
    def __init__(
        self,
        upstream: str,
        *,
        latency_s: float = 0.0,
        bytes_per_second: float | None = None,
        faults: Iterable[Fault] = (),
    ):
        link = {"latency_s": latency_s, "bytes_per_second": bytes_per_second}
        command = [sys.executable, __file__, json.dumps({"upstream": upstream, **link})]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.address = self._ask("address")
        self.url = f"http://{self.address}"
        self.set_faults(*faults)

    def __enter__(self) -> "ProxyProcess":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child and with it every connection."""
        self._child.kill()
        self._child.communicate()

    def set_faults(self, *faults: Fault) -> None:
        """These rules and no others from now on; their counts begin at 0."""
        self._ask("set_faults", [dataclasses.asdict(each) for each in faults])

    def reset(self) -> None:
        """Forgets the requests seen so far."""
        self._ask("reset")

    def wait_until_idle(self) -> None:
        """Until no request is under way."""
        self._ask("wait_until_idle")

    @property
    def seen(self) -> list[Seen]:  # type: ignore[override]
        return [Seen(**each) for each in self._ask("seen")]

    @property
    def most_under_way(self) -> int:  # type: ignore[override]
        return self._ask("most_under_way")

    @property
    def connections(self) -> int:  # type: ignore[override]
        return self._ask("connections")

    def _ask(self, what: str, about=None):
        self._child.stdin.write(json.dumps([what, about]) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            raise RuntimeError(f"the proxy has ended with {self._child.wait(10)}")
        return json.loads(answer)


def answer(proxy: FaultProxy, what: str, about):
    if what == "set_faults":
        return proxy.set_faults(*(Fault(**each) for each in about))
    if what in ("reset", "wait_until_idle"):
        return getattr(proxy, what)()
    if what == "seen":
        return [dataclasses.asdict(each) for each in list(proxy.seen)]
    return getattr(proxy, what)


def main() -> None:
    with FaultProxy(**json.loads(sys.argv[1])) as proxy:
        for line in sys.stdin:
            print(json.dumps(answer(proxy, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
