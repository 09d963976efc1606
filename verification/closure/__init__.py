"""The closure pass: what one table of a run says resolves in the others, or the lane has a doubt that says why not."""
