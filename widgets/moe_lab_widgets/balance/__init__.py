"""The balance Lab: routers collapse, and four ways to balance the load act side by side."""
