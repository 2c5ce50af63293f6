"""The proxy that plays long, narrow and failing links, seen by clients that are not cellfeed."""

import http.client
import random
import threading
import time

import pytest
from fault_proxy import FaultProxy
from fault_rules import Fault
from file_server import FileServer

CONTENT = random.Random(7).randbytes(100_000)


@pytest.fixture
def proxy(tmp_path):
    (tmp_path / "cells.h5ad").write_bytes(CONTENT)
    with FileServer(tmp_path) as server, FaultProxy(server.address) as made:
        yield made


def get(proxy, begin=1000, end=5000, *, method="GET", path="/cells.h5ad", headers=(), timeout=10):
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection(proxy.address, timeout=timeout)
    try:
        headers = {"Range": f"bytes={begin}-{end - 1}", **dict(headers)}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_without_faults_answers_pass_unchanged_and_are_counted(proxy):
    status, headers, body = get(proxy)
    assert (status, headers["Content-Range"], body) == (
        206,
        "bytes 1000-4999/100000",
        CONTENT[1000:5000],
    )
    assert get(proxy, method="HEAD", headers={"X-Secret": "hush"})[2] == b""
    assert get(proxy, path="/missing")[0] == 404
    assert proxy.counts() == {"GET /cells.h5ad": 1, "HEAD /cells.h5ad": 1, "GET /missing": 1}
    assert proxy.count("GET") == 2 and proxy.count(path="cells") == 2
    assert proxy.report()["connections"] == 3 and proxy.bytes_sent > 4000
    assert "hush" in proxy.said() and "hush" not in "".join(proxy.counts())


def test_one_connection_serves_many_requests(proxy):
    connection = http.client.HTTPConnection(proxy.address, timeout=10)
    for begin in range(0, 90_000, 9_000):
        connection.request("GET", "/cells.h5ad", headers={"Range": f"bytes={begin}-{begin + 99}"})
        assert connection.getresponse().read() == CONTENT[begin : begin + 100]
    connection.close()
    assert (proxy.connections, proxy.count()) == (1, 10)


@pytest.mark.parametrize(
    ("fault", "status"),
    [("status", 500), ("status", 503), ("status", 403), ("status", 404), ("html", 200)],
)
def test_made_answers(proxy, fault, status):
    proxy.set_faults(Fault(kind=fault, status=status, retry_after=2.5, nth=(1,)))
    spoiled, headers, body = get(proxy)
    assert (spoiled, headers["Retry-After"]) == (status, "2.5")
    assert body and body not in CONTENT
    assert get(proxy)[2] == CONTENT[1000:5000]
    assert [each.fault for each in proxy.seen] == [fault, ""]


@pytest.mark.parametrize(
    ("request_headers", "told"),
    [
        ({"x-amz-date": "now"}, b"<Code>SlowDown</Code>"),
        ({"x-ms-version": "1"}, b"<Code>ServerBusy</Code>"),
        ({"x-goog-api-client": "gcloud-cpp/1"}, b'"code": 503'),
    ],
)
def test_a_made_error_is_in_the_form_of_the_provider(proxy, request_headers, told):
    proxy.set_faults(Fault(kind="status", status=503))
    assert told in get(proxy, headers=request_headers)[2]


def test_an_answer_that_breaks_off(proxy):
    for kind, error in [
        ("reset", ConnectionResetError), ("reset_in_body", ConnectionResetError),
        ("truncate", http.client.IncompleteRead),
    ]:  # fmt: skip
        proxy.set_faults(Fault(kind=kind, after_bytes=10, nth=(1,)))
        with pytest.raises(error):
            get(proxy)
        assert get(proxy)[2] == CONTENT[1000:5000]


def test_a_stalled_body_says_nothing_more_and_ends_with_the_proxy(proxy):
    proxy.set_faults(Fault(kind="stall", after_bytes=10))
    with pytest.raises(TimeoutError):
        get(proxy, timeout=0.3)
    errors = []

    def wait():
        try:
            get(proxy)
        except (OSError, http.client.IncompleteRead) as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    began = time.monotonic()
    proxy.close()
    waiting.join()
    assert time.monotonic() - began < 8 and len(errors) == 1  # it waits 10 s for a thread


def test_wrong_ranges(proxy):
    proxy.set_faults(Fault(kind="other_range", shift=7))
    status, headers, body = get(proxy)
    assert (status, headers["Content-Range"]) == (206, "bytes 1007-5006/100000")
    assert len(body) == 4000 and body != CONTENT[1000:5000]
    proxy.set_faults(Fault(kind="shifted_bytes", shift=7))
    status, headers, body = get(proxy)
    assert (status, headers["Content-Range"]) == (206, "bytes 1000-4999/100000")
    assert len(body) == 4000 and body != CONTENT[1000:5000]
    proxy.set_faults(Fault(kind="short_range", after_bytes=100))
    status, headers, body = get(proxy)
    assert (status, headers["Content-Range"]) == (206, "bytes 1000-1099/100000")
    assert body == CONTENT[1000:1100]
    proxy.set_faults(Fault(kind="whole_body"))
    status, headers, body = get(proxy)
    assert (status, headers["Content-Range"], body) == (200, None, CONTENT)


def test_an_object_that_was_replaced(proxy):
    old = get(proxy)[1]["ETag"]
    assert get(proxy, headers={"If-Match": old})[0] == 206
    proxy.set_faults(Fault(kind="other_etag"))
    status, headers, _ = get(proxy)
    assert status == 206 and headers["ETag"] not in (old, None)
    assert get(proxy, headers={"If-Match": old})[0] == 412


def test_rules_choose_by_number_path_method_and_share(proxy):
    proxy.set_faults(
        Fault(kind="status", method="HEAD"),
        Fault(kind="status", status=503, path=r"\.h5ad$", nth=(2, 3)),
    )
    assert [get(proxy)[0] for _ in range(4)] == [206, 503, 503, 206]
    assert get(proxy, method="HEAD")[0] == 500
    drawn = []
    for _ in range(2):
        proxy.set_faults(Fault(kind="status", share=0.3, seed=5))
        drawn.append([get(proxy)[0] for _ in range(50)])
    assert drawn[0] == drawn[1] and 5 <= drawn[0].count(500) <= 25
    with pytest.raises(ValueError, match="no fault 'sulk'; there are reset"):
        Fault(kind="sulk")


def test_slow_bodies_and_late_answers(proxy):
    for fault in Fault(kind="trickle", bytes_per_second=20_000), Fault(kind="delay", seconds=0.2):
        proxy.set_faults(fault)
        began = time.monotonic()
        assert get(proxy)[2] == CONTENT[1000:5000]
        assert time.monotonic() - began >= 0.19


def all_at_once(proxy, n, *arguments):
    threads = [threading.Thread(target=get, args=[proxy, *arguments]) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_latency_is_paid_by_the_connection_and_by_each_request(tmp_path):
    (tmp_path / "cells.h5ad").write_bytes(CONTENT)
    with FileServer(tmp_path) as server, FaultProxy(server.address, latency_s=0.05) as proxy:
        began = time.monotonic()
        get(proxy)
        assert time.monotonic() - began >= 0.2


def test_requests_of_several_connections_are_under_way_together(proxy):
    proxy.set_faults(Fault(kind="meet", meeting=8))
    all_at_once(proxy, 8)
    assert proxy.most_under_way == 8
    proxy.set_faults()
    proxy.reset()
    get(proxy)
    get(proxy)
    assert proxy.most_under_way == 1


def test_an_answer_that_is_held_waits_for_other_rules(proxy):
    proxy.set_faults(Fault(kind="hold"))
    errors = []

    def wait():
        try:
            get(proxy, timeout=60)
        except OSError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not proxy.is_holding():
        time.sleep(0.01)
    assert waiting.is_alive() and proxy.seen[0].status == 0
    proxy.set_faults()
    waiting.join()
    proxy.wait_until_idle()
    assert len(errors) == 1
    assert get(proxy)[0] == 206


def test_bandwidth_is_shared_by_all_connections(tmp_path):
    (tmp_path / "cells.h5ad").write_bytes(CONTENT)
    with FileServer(tmp_path) as server, FaultProxy(server.address, bytes_per_second=1e6) as proxy:
        began = time.monotonic()
        all_at_once(proxy, 3, 0, 100_000)
        assert time.monotonic() - began >= 0.29
