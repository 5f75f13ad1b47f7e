"""What a request asks is admitted, decoded, run, explained and stored here, by whatever protocol it came."""
