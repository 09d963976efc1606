"""Names, columns, formats and messages that all packages share and other tools rely on. Imports no other package."""
