"""The command line. Light to import: what needs Lance is imported by the command that needs it."""
