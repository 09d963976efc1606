"""Transactional producers: incarnations that are paced, killed and fenced, and the rows of their transactions."""
