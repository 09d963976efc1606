"""What spark-submit runs: `spark-submit --master … --py-files kafka_chaos.whl submit.py DIR…`, as `kafka-chaos verify`.

Guarantee: arguments, output and exit codes are those of the command; the master is spark-submit's.
"""

from __future__ import annotations

from kafka_chaos.verification.cli import verify_command

if __name__ == "__main__":
    verify_command()
