"""The prefilter by agreement: tables whose counts and sums of hashes agree are not compared record by record."""
