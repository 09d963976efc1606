"""The tables of a run as Spark reads them, checked and counted, and what the anomalies are judged on."""
