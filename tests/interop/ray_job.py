"""A process that writes with lance-ray, one line of JSON after the other: ``[mode, first, last]``.

``python ray_job.py '{"root": ..., ...}'`` with lance-ray on PYTHONPATH; answers each line with how
many rows lance-ray reads afterwards. Ends with its input.
"""

from __future__ import annotations

import json
import sys

import lance_ray
import pyarrow as pa
import ray

TABLE = ["ns", "t"]
IMPL = "lance_catalog.DirectoryNamespace"


def main() -> None:
    """Serve until the input ends."""
    properties = json.loads(sys.argv[1])
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 2**20,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    where = {"table_id": TABLE, "namespace_impl": IMPL, "namespace_properties": properties}
    print("ready", flush=True)
    for line in sys.stdin:
        mode, first, last = json.loads(line)
        numbers = pa.array(range(first, last), pa.int64())
        lance_ray.write_lance(ray.data.from_arrow(pa.table({"n": numbers})), mode=mode, **where)
        print(lance_ray.read_lance(**where).count(), flush=True)


if __name__ == "__main__":
    main()
