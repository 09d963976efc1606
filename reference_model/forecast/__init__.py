"""How likely and how large anomalies are, from the record of runs; predictions say only which of them may be."""
