"""The import package of kafka-chaos: `kafka_chaos.harness`, `kafka_chaos.faults`, and so on.

The folders themselves stand at the top of the repository; the entries beside this file are relative links to
them, so that an installed wheel claims the one name `kafka_chaos` (docs/decisions/0001-import-names.md).
"""

__version__ = "0.1.0"
