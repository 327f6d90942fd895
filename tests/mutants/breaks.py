"""The breaks: one line each, the clause or invariant it breaks, and the tests that guard it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BREAKS", "Break"]

B = "tests/behaviour/"


@dataclass(frozen=True, slots=True)
class Break:
    """One line of ``file`` changed from ``old`` to ``new``; ``tests`` must turn red."""

    clause: str
    file: str
    old: str
    new: str
    tests: str


BREAKS = [
    Break(
        "C01",
        "lifecycle/locations.py",
        'SUFFIX: Final = ".lance"',
        'SUFFIX: Final = ".lanc"',
        B + "test_layout.py",
    ),
    Break(
        "C02",
        "storage/port.py",
        "filled = bool(names) or any(",
        "filled = True or any(",
        B + "test_layout.py",
    ),
    Break(
        "C04",
        "manifest/schema.py",
        'pa.field("object_type", pa.string(), nullable=False)',
        'pa.field("object_type", pa.string())',
        B + "test_manifest.py",
    ),
    Break(
        "C05",
        "identifiers.py",
        'DELIMITER: Final = "$"',
        'DELIMITER: Final = "#"',
        B + "test_layout.py",
    ),
    Break(
        "C07",
        "model.py",
        "    if not properties:\n        return None\n",
        "",
        B + "test_manifest.py " + B + "test_tables.py",
    ),
    Break(
        "C08",
        "manifest/indices.py",
        '("base_objects", "LABEL_LIST", "base_objects_label_list"),',
        "",
        B + "test_manifest.py",
    ),
    Break(
        "C09",
        "manifest/writing.py",
        "lambda final: self.store.put_if_absent(final, manifest)",
        "lambda final: self.store.put(final, manifest) is None",
        "tests/concurrency/test_same_names.py",
    ),
    Break(
        "C09",
        "storage/landing.py",
        "        if not self._settled(version):",
        "        if False:",
        "tests/interop/test_sleepers.py",
    ),
    Break(
        "C09",
        "manifest/batcher.py",
        "            change, result = ticket.plan(draft.view)",
        "            change, result = ticket.plan(view)",
        "tests/concurrency/test_batches.py",
    ),
    Break(
        "C09",
        "manifest/draft.py",
        "carried[key] = source if source.address >= 0 else self._added[source.object_id][1]",
        "carried[key] = source if source.address >= 0 else None",
        "tests/concurrency/test_batches.py",
    ),
    Break(
        "C10",
        "directory/layout.py",
        'f"{secrets.token_hex(_HASH_BYTES)}_{encode(names)}"',
        "f\"{'0' * 16}_{encode(names)}\"",
        B + "test_layout.py " + B + "test_registration.py",
    ),
    Break(
        "C12",
        "config.py",
        "    raise InvalidInputError(f\"property '{name}' is {value!r}; expected true or false\")",
        "    return True",
        "tests/unit/test_config.py " + B + "test_requests.py",
    ),
    Break(
        "C15",
        "directory/resolve.py",
        "    if not is_addressable((name,)) or view.at_location(directory):",
        "    if not is_addressable((name,)):",
        B + "test_compat.py " + B + "test_rename.py",
    ),
    Break(
        "C20",
        "directory/migration.py",
        "        if view.at_location(name + SUFFIX):\n            report.already",
        "        if False:\n            report.already",
        B + "test_migration.py",
    ),
    Break(
        "I02",
        "directory/namespaces.py",
        "body if properties else None",
        "None",
        B + "test_namespaces.py",
    ),
    Break(
        "I11",
        "directory/namespaces.py",
        "        if entry.is_namespace and not is_internal_key(entry.object_id)",
        "        if not is_internal_key(entry.object_id)",
        B + "test_namespaces.py",
    ),
    Break(
        "I13",
        "directory/namespaces.py",
        '        if how == "restrict":\n            _require_empty(view, names)',
        '        if how == "restrict":',
        B + "test_namespaces.py",
    ),
    Break(
        "I21",
        "directory/paging.py",
        "    return found[:limit], found[limit - 1]",
        "    return found[:limit], found[limit]",
        B + "test_paging.py",
    ),
    Break(
        "I23",
        "directory/registration.py",
        "    mark_v1(ctx, row)\n",
        "    (lambda *a: None)(ctx, row)\n",
        B + "test_compat.py " + B + "test_registration.py",
    ),
    Break(
        "I24",
        "lifecycle/locations.py",
        'if not parts or ".." in parts or parts[0] in _NEVER:',
        'if not parts or ".." in parts:',
        B + "test_locations.py",
    ),
    Break(
        "O01",
        "directory/namespaces.py",
        "            _refuse_v1_name(ctx, view, names)\n",
        "",
        B + "test_compat.py " + B + "test_namespaces.py",
    ),
    Break(
        "O03",
        "identifiers.py",
        'return () if value in ("", DELIMITER) else',
        "return",
        "tests/unit/test_identifiers.py",
    ),
    Break(
        "R7",
        "directory/listing.py",
        "if store.remote and FLAG in root.objects:",
        "if store.remote:",
        "tests/unit/test_layout_flag.py",
    ),
    Break(
        "R7",
        "directory/migration.py",
        "    report.flagged = ready and found.any_table",
        "    report.flagged = found.any_table",
        "tests/unit/test_layout_flag.py",
    ),
    Break(
        "R7",
        "lifecycle/markers.py",
        "            remove_own(store, name, own)\n        return False\n    return True",
        "            pass\n        return False\n    return True",
        "tests/unit/test_layout_flag.py",
    ),
    Break(
        "R7",
        "storage/local.py",
        'if not os.access(f"{folder}/{mark}", os.F_OK, dir_fd=root)',
        "if True",
        B + "test_v1_listing.py",
    ),
    Break(
        "R9",
        "identifiers.py",
        'RESERVED_AT_ROOT: Final = frozenset({"__manifest", TRASH, CLAIMS})',
        "RESERVED_AT_ROOT: Final = frozenset({TRASH, CLAIMS})",
        B + "test_names.py",
    ),
    Break(
        "R11",
        "directory/resolve.py",
        "        require_namespace(view, parent_of(names))\n    # ",
        "        pass\n    # ",
        B + "test_tables.py",
    ),
    Break(
        "R12",
        # The denied child of test_readonly.py does not run the copy.
        "errors.py",
        "    if (\n        isinstance(error, PermissionError)",
        "    if False and (\n        isinstance(error, PermissionError)",
        "tests/unit/test_errors.py",
    ),
    Break(
        "R14",
        "model.py",
        "        if not key.startswith(INTERNAL_PREFIX) or key == PROTECTED\n    }",
        "    }",
        B + "test_namespaces.py",
    ),
    Break(
        "INV2",
        "manifest/writing.py",
        '        self.store.delete([f"{DIRECTORY}/{path}" for path in self._files])\n',
        "        pass\n",
        B + "test_faults.py tests/concurrency/test_same_names.py",
    ),
    Break(
        "INV4",
        "lifecycle/purge.py",
        "    if others:\n        raise InvalidTableStateError(",
        "    if False:\n        raise InvalidTableStateError(",
        B + "test_locations.py",
    ),
    Break(
        "S01",
        "lifecycle/states.py",
        '                "deleted_at_ms": self.deleted_at_ms,\n                "ttl_ms"',
        '                "deleted_at": self.deleted_at_ms,\n                "ttl_ms"',
        B + "test_undo.py -k Markers",
    ),
    Break(
        "S03",
        "directory/dropping.py",
        "claim = new_claim(Verb.PURGE, now) if how.purge else None",
        "claim = new_claim(Verb.PURGE, now)",
        B + "test_undo.py -k TestDrop",
    ),
    Break(
        "S04",
        "lifecycle/purge.py",
        "    check_deletable(view, current.entry, what)\n",
        "",
        B + "test_purge.py -k Shared",
    ),
    Break(
        "S05",
        "lifecycle/states.py",
        "return at is not None and at <= now_ms",
        "return at is not None",
        B + "test_undo.py -k TimeToLive",
    ),
    Break(
        "S06",
        "directory/dropped.py",
        "return row.hidden.state is HiddenState.DROPPED",
        "return True",
        B + "test_undo.py -k Status",
    ),
    Break(
        "S07",
        "lifecycle/trash.py",
        "dump_metadata({**kept, **properties})\n    )",
        "dump_metadata(properties)\n    )",
        B + "test_undo.py -k TestDrop",
    ),
    Break(
        "S08",
        "directory/tables.py",
        "    if not fresh:\n        revived",
        "    if fresh:\n        revived",
        B + "test_recreate.py -k Revive",
    ),
    Break(
        "S11",
        "lifecycle/claims.py",
        "if latest.verb is Verb.PURGE and verb is not Verb.PURGE:",
        "if latest is None:",
        B + "test_purge.py -k Claims",
    ),
    Break(
        "R4",
        "lifecycle/removal.py",
        "    if count.objects:\n        return False\n",
        "",
        B + "test_purge_denied.py",
    ),
    Break(
        "R5",
        "directory/undo.py",
        'purge = ctx.settings.drop_purges if chosen is None else chosen == "purge"',
        'purge = chosen == "purge"',
        B + "test_undo.py -k TimeToLive",
    ),
    Break(
        "S12",
        "directory/context.py",
        "        rows = self.whole().exact().at_location(place)\n",
        "        rows = self.exact().at_location(place)\n",
        B + "test_mixed_modes.py -k Hidden",
    ),
    Break(
        "S12",
        "lifecycle/markers.py",
        "        require_back(store, name, directory, held, terms)\n",
        "        pass\n",
        "tests/concurrency/test_interleavings.py -k passed_by",
    ),
    Break(
        "S12",
        "directory/trashing.py",
        "        if not stays:\n",
        "        if False:\n",
        "tests/concurrency/test_migration_race.py",
    ),
    Break(
        "S12",
        "maintenance/check.py",
        "    ctx = ctx.whole()\n",
        "",
        B + "test_mixed_modes.py -k Upkeep",
    ),
    Break(
        "R14",
        "directory/protection.py",
        "    if is_protected(properties):",
        "    if not properties:",
        B + "test_recreate.py -k Protect",
    ),
]
