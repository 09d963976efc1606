"""What all packages share and other tools rely on: names, columns, formats. Imports nothing of the project."""
