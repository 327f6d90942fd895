"""What a job's commit costs on an object store: as many requests at any number of versions."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.job_search import Looker, find_done, open_for_job
from lance_catalog.directory.jobs import Job
from tests.behaviour.catalogs import Catalog
from tests.behaviour.jobbing import append
from tests.servers.proxy import CountingProxy

pytestmark = [pytest.mark.stores("s3"), pytest.mark.modes(Mode.COMPAT)]


@pytest.mark.parametrize("managed", [False, True])
def test_requests_do_not_grow_with_the_versions(
    catalog: Catalog, request: pytest.FixtureRequest, managed: bool
) -> None:
    if managed:
        catalog.enable_managed_versions()
    catalog.create(["t"])
    server = request.getfixturevalue("s3_server")
    with CountingProxy(server.endpoint) as proxy:
        options = server.storage_options("", endpoint=proxy.endpoint)
        storage = {f"storage.{key}": value for key, value in options.items()}

        def counted(work: Callable[[DirectoryNamespace], object]) -> int:
            ns = DirectoryNamespace(root=catalog.root.uri, **storage)
            find_done(ns.context, ("t",), Job("warm"))  # The manifest is not what is counted.
            proxy.traffic.reset()
            work(ns)
            return proxy.traffic.counts().total

        def run(job: str) -> Callable[[DirectoryNamespace], object]:
            def work(ns: DirectoryNamespace) -> None:
                if find_done(ns.context, ("t",), Job(job)) is None:
                    append(ns, ["t"], [7], job)

            return work

        def more(versions: int) -> None:
            place = catalog.ns.describe_table({"id": ["t"]}).location
            table = lance.dataset(place, storage_options=catalog.root.options)
            for number in range(versions):
                table.update_config({"number": str(number)})
            append(catalog.ns, ["t"], [1], f"after {versions}")

        more(3)
        few = counted(run("a")), counted(run("a"))
        more(40)
        many = counted(run("b")), counted(run("b"))
        # A heal or a page of a listing may add one; a look at every version would add forty.
        assert many[0] <= few[0] + 8 and many[1] <= few[1] + 8, (few, many)

        # A driver that died before its commit: the versions since are read, several at a time.
        job = Job("dead")
        Looker(catalog.ns.context, job).announce(open_for_job(catalog.ns.context, ("t",)))
        more(20)
        found: list[object] = []
        counted(lambda ns: found.append(append(ns, ["t"], [9], "dead").repeated))
        counted(lambda ns: found.append(append(ns, ["t"], [9], "dead").repeated))
        assert found == [False, True]
    assert catalog.data(["t"]).count(9) == 1
