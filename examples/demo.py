"""A tour of lance-catalog on a local folder: run it with ``make demo``.

First the catalog by itself, in a few steps; then a pipeline on local Spark (``spark_tour.py``).
Give a folder to keep the catalog (``make demo DIR=/tmp/my-catalog``); without one it lives in a
temporary folder that is removed at the end.
"""

from __future__ import annotations

import importlib.util
import io
import os
import random
import subprocess
import sys
import tempfile

# Before Lance is imported, which reads it then: a tour is no place for its remarks.
os.environ.setdefault("LANCE_LOG", "error")

import lance
import pyarrow as pa
from rich.console import Console

import lance_catalog

console = Console(highlight=False, soft_wrap=True)
DIMENSION = 64


def documents(count: int, seed: int) -> pa.Table:
    """Make documents with vectors, the way an embedding job would hand them over."""
    rng = random.Random(seed)
    vectors = pa.array([rng.gauss(0, 1) for _ in range(count * DIMENSION)], pa.float32())
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "title": [f"document {n}" for n in range(count)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
        }
    )


def stream(table: pa.Table) -> bytes:
    """Encode a table as the Arrow stream that create_table takes."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def step(title: str, code: str) -> None:
    """Announce a step and the code that does it."""
    console.print(f"\n[bold]{title}[/bold]")
    console.print(f"  [dim]{code}[/dim]", markup=True)


def typed(root: str, command: str) -> None:
    """Run a command as somebody at a terminal would, and show what it says."""
    console.print(f"  [bold]$ lance-catalog {command}[/bold]")
    program = os.path.join(os.path.dirname(sys.executable), "lance-catalog")
    ran = subprocess.run(
        [program, *command.split()],
        env={**os.environ, "LANCE_CATALOG_ROOT": root},
        capture_output=True,
        text=True,
    )
    for line in (ran.stdout + ran.stderr).splitlines():
        console.print(f"    {line}", markup=False)


def tour(root: str) -> None:
    """Walk through the catalog."""
    catalog = lance_catalog.connect(root)
    console.print(f"A catalog needs nothing but storage. This one is in [bold]{root}[/bold]")

    step("1. Namespaces nest, and carry properties", "catalog.create_namespace({...})")
    catalog.create_namespace({"id": ["prod"], "properties": {"owner": "data-platform"}})
    catalog.create_namespace({"id": ["prod", "search"]})
    console.print(f"  prod -> {catalog.describe_namespace({'id': ['prod']}).properties}")

    step("2. Tables with vectors", "catalog.create_table({...}, arrow_stream)")
    table_id = ["prod", "search", "docs"]
    catalog.create_table({"id": table_id}, stream(documents(2_000, seed=1)))
    for name in catalog.list_all_tables({}).tables:
        console.print("  " + name.replace("$", "."))

    step(
        "3. Stock Lance reads and writes them by name",
        'lance.dataset(namespace_client=catalog, table_id=["prod", "search", "docs"])',
    )
    lance.write_dataset(
        documents(500, seed=3), namespace_client=catalog, table_id=table_id, mode="append"
    )
    dataset = lance.dataset(namespace_client=catalog, table_id=table_id)
    console.print(f"  {dataset.count_rows()} rows in version {dataset.version}")

    step("4. Rename across namespaces: one commit, no byte moves", "catalog.rename_table({...})")
    catalog.rename_table(
        {"id": table_id, "new_table_name": "documents", "new_namespace_id": ["prod"]}
    )
    console.print(f"  prod: {catalog.list_tables({'id': ['prod']}).tables}")

    step("5. Drop, and change your mind: on the command line", f"export LANCE_CATALOG_ROOT={root}")
    typed(root, "table drop prod.documents --ttl 3d")
    typed(root, "trash undrop prod.documents")
    typed(root, "table count prod.documents")


def main() -> None:
    """Run the tour, in a given folder or a temporary one."""
    given = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(prefix="lance-catalog-demo-") as folder:
        home = given or folder
        root = os.path.join(home, "catalog")
        if os.path.exists(root):
            sys.exit(f"{root} exists already; give another folder: make demo DIR=...")
        tour(root)
        if importlib.util.find_spec("pyspark") is None:
            console.print("\nThe pipeline on Spark needs pip install 'lance-catalog[spark]'")
        else:
            from spark_tour import spark_tour

            spark_tour(console, root, os.path.join(home, "raw"))
        console.print("\n[bold]Go on[/bold]")
        if given:
            console.print(f"  .venv/bin/lance-catalog --root {root} table list --recursive")
            console.print(f"  .venv/bin/lance-catalog --root {root} check")
        else:
            console.print("  make demo DIR=/tmp/tour   keeps the catalog, to look at with the CLI")
        console.print("  README.md                 connect in three lines, on a folder or a bucket")
        console.print("  examples/pipeline/        the pipeline files of this tour")
        console.print("  docs/                     tutorial, how-to, reference, decisions")


if __name__ == "__main__":
    main()
