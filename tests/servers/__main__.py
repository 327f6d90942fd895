"""Command line: ``python -m tests.servers fetch [name ...]`` and ``... status``."""

from __future__ import annotations

import argparse
import sys

from tests.servers import fetch


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers")
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("fetch", help="install the servers into the cache")
    install.add_argument("name", nargs="*", help=f"of {', '.join(fetch.SERVERS)}; default all")
    commands.add_parser("status", help="say which servers are installed")
    args = parser.parse_args(argv)

    if args.command == "status":
        for server in fetch.SERVERS.values():
            state = "installed" if server.is_installed() else "not fetched"
            print(f"{server.name} {server.version}: {state}")
        return 0

    unknown = sorted(set(args.name) - set(fetch.SERVERS))
    if unknown:
        parser.error(f"unknown server: {', '.join(unknown)}")
    failed = False
    for name in args.name or fetch.SERVERS:
        # One server that cannot be had must not cost us the others.
        try:
            fetch.fetch(fetch.SERVERS[name])
        except fetch.FetchError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
