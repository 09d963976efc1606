"""`python -m kafka_chaos.reference_model.document` prints docs/model.md."""

import sys

from kafka_chaos.reference_model.document import document

if __name__ == "__main__":
    sys.stdout.write(document())
