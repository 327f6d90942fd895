"""Is put-if-absent safe on this store? Asked once per store before the first write.

Without it, two writers could both win, so write paths refuse (0) instead of assuming.
"""

from __future__ import annotations

import threading
import weakref

from lance_catalog.errors import UnsupportedOperationError
from lance_catalog.storage.port import Store

__all__ = ["require_put_if_absent"]

_answers: weakref.WeakKeyDictionary[Store, str | None] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def require_put_if_absent(store: Store) -> None:
    """Raise 0 unless the store creates an object only when it is absent."""
    with _lock:
        known = store in _answers
        why = _answers.get(store)
    if not known:
        why = store.probe_put_if_absent()
        with _lock:
            _answers[store] = why
    if why is not None:
        raise UnsupportedOperationError(
            f"{store.uri} has no safe put-if-absent ({why}), so writers could overwrite each "
            "other. Nothing was written. Use a store with conditional writes; reading works."
        )
