"""`python -m kafka_chaos.reference_model.document` prints docs/model.md."""

import sys

from kafka_chaos.reference_model.document import document

sys.stdout.write(document())
