"""How a scenario's record is shown: on the terminal, and on the page of all scenarios."""
