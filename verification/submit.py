"""`kafka-chaos verify` for spark-submit: `spark-submit --master … --py-files kafka_chaos.whl submit.py DIR…`.

Guarantee: arguments, output and exit codes are those of the command; the master is spark-submit's.
"""

from typing import NoReturn

from kafka_chaos.contract.command.command_line import invoke, run_and_exit
from kafka_chaos.verification.cli import verify_command


def main() -> NoReturn:
    """Run the command and exit with its code."""
    run_and_exit(lambda: invoke(verify_command, "verify"))


if __name__ == "__main__":
    main()
