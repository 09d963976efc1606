"""The test oracle: what facts and anomalies are, in loops over lists, for histories of some hundred rows.

It shares no code with the statements in SQL, which have to agree with it row by row.
"""
