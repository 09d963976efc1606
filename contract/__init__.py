"""Names, columns and formats that all packages share and other tools rely on. Imports nothing from the project."""
