"""Directory namespaces: V1, V2 and compatibility mode."""
