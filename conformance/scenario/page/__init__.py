"""How a scenario's record is shown: on the terminal, as pictures, and on the page of all scenarios."""
