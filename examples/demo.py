"""A tour of lance-catalog on a local folder: run it with ``make demo``.

Give a folder to keep the catalog (``make demo DIR=/tmp/my-catalog``); without one it lives in a
temporary folder that is removed at the end.
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
import time

import lance
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

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
    console.print(f"  [dim]{code}[/dim]")


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


def show_disk(root: str) -> None:
    """Show what lies below the root: one folder per table, and the manifest."""
    tree = Tree(root)
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name)
        files = sum(len(found) for _, _, found in os.walk(path)) if os.path.isdir(path) else 1
        tree.add(f"{name}  [dim]{files} files[/dim]")
    console.print(tree)


def tour(root: str) -> None:
    """Walk through the catalog."""
    catalog = lance_catalog.connect(root)
    console.print(f"A catalog needs nothing but storage. This one is in [bold]{root}[/bold]")

    step("1. Namespaces nest, and carry properties", "catalog.create_namespace({...})")
    catalog.create_namespace({"id": ["prod"], "properties": {"owner": "data-platform"}})
    catalog.create_namespace({"id": ["prod", "search"]})
    console.print(f"  prod -> {catalog.describe_namespace({'id': ['prod']}).properties}")

    step("2. Tables with vectors", "catalog.create_table({...}, arrow_stream)")
    catalog.create_table({"id": ["prod", "search", "docs"]}, stream(documents(2_000, seed=1)))
    catalog.create_table({"id": ["quickstart"]}, stream(documents(100, seed=2)))
    for name in catalog.list_all_tables({}).tables:
        console.print("  " + name.replace("$", "."))

    step(
        "3. Stock Lance reads and writes them by name",
        'lance.dataset(namespace_client=catalog, table_id=["prod", "search", "docs"])',
    )
    table_id = ["prod", "search", "docs"]
    lance.write_dataset(
        documents(500, seed=3), namespace_client=catalog, table_id=table_id, mode="append"
    )
    dataset = lance.dataset(namespace_client=catalog, table_id=table_id)
    probe = documents(1, seed=3)["vector"][0].as_py()
    nearest = dataset.to_table(
        nearest={"column": "vector", "q": probe, "k": 3}, columns=["title", "_distance"]
    )
    found = Table("title", "distance")
    for row in nearest.to_pylist():
        found.add_row(row["title"], f"{row['_distance']:.3f}")
    console.print(f"  {dataset.count_rows()} rows; nearest to a known vector:")
    console.print(found)

    step("4. Describe", 'catalog.describe_table({"id": [...], "load_detailed_metadata": True})')
    described = catalog.describe_table({"id": table_id, "load_detailed_metadata": True})
    console.print(f"  version {described.version} at {described.location}")

    step(
        "5. Rename across namespaces: one commit, no byte moves",
        'catalog.rename_table({"id": [...], "new_table_name": "documents", ...})',
    )
    catalog.rename_table(
        {"id": table_id, "new_table_name": "documents", "new_namespace_id": ["prod"]}
    )
    console.print(f"  prod: {catalog.list_tables({'id': ['prod']}).tables}")
    assert catalog.describe_table({"id": ["prod", "documents"]}).location == described.location

    step("6. Many changes are cheap: 200 namespaces", "for n in range(200): create_namespace(...)")
    start = time.perf_counter()
    for number in range(200):
        catalog.create_namespace({"id": ["prod", f"team{number:03d}"]})
    console.print(f"  {(time.perf_counter() - start) / 200 * 1000:.1f} ms each on this machine")
    page = catalog.list_namespaces({"id": ["prod"], "limit": 3})
    console.print(f"  first page: {page.namespaces}, next from {page.page_token!r}")

    step("7. Drop, and change your mind: on the command line", f"export LANCE_CATALOG_ROOT={root}")
    typed(root, "table drop quickstart --ttl 3d")
    typed(root, "trash list")
    typed(root, "trash undrop quickstart")
    typed(root, "table count quickstart")

    step("8. A namespace with all it holds: one commit, its tables can come back", "--cascade")
    catalog.drop_namespace({"id": ["prod"], "behavior": "cascade"})
    console.print(f"  tables left: {catalog.list_all_tables({}).tables}")
    typed(root, "trash undrop prod.documents --as documents")
    console.print(f"  and back: {catalog.list_all_tables({}).tables}")

    step("9. Protect it, then try", "lance_catalog.protected=true")
    typed(root, "table set documents lance_catalog.protected=true")
    typed(root, "table drop documents")

    step("10. What is on disk", "ls")
    show_disk(root)


def main() -> None:
    """Run the tour, in a given folder or a temporary one."""
    given = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(prefix="lance-catalog-demo-") as folder:
        root = os.path.join(given or folder, "catalog")
        if os.path.exists(root):
            sys.exit(f"{root} exists already; give another folder: make demo DIR=...")
        tour(root)
        console.print("\n[bold]Go on[/bold]")
        if given:
            console.print(f"  .venv/bin/lance-catalog --root {root} table list --recursive")
            console.print(f"  .venv/bin/lance-catalog --root {root} check")
        else:
            console.print("  make demo DIR=/tmp/tour   keeps the catalog, to look at with the CLI")
        console.print("  README.md                 connect in three lines, on a folder or a bucket")
        console.print("  docs/                     tutorial, how-to, reference, decisions")


if __name__ == "__main__":
    main()
