"""One kernel on several equal devices: batches of candidates travel."""
